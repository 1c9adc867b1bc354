"""Entry of the programs: first of all signals, then everything that takes seconds to import."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from unilab.output import keep_output_harmless


def main() -> int:
    """``unilab ...``; returns the exit code."""
    return _run("main")


def script_main(command: str) -> int:
    """``python scripts/<command>.py ...``; returns the exit code."""
    return _run(f"{command}_main")


def _run(name: str) -> int:
    keep_output_harmless()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    # What is imported stays: the collector of garbage need not go through it while a run is timed, nor at its end.
    gc.disable()
    from unilab import cli

    gc.freeze()
    gc.enable()
    code: int = getattr(cli, name)()
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the outcome is settled; Python's own end would make it another
    return code


def _end(number: int, _: FrameType | None) -> None:
    """Until a run has handlers of its own there is nothing to save, and imports print long tracebacks."""
    sys.stderr.write(f"unilab: ended by {signal.Signals(number).name} before the run began\n")
    sys.stderr.flush()
    os._exit(128 + number)

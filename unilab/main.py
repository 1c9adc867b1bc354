"""Entry of the programs: first of all signals, then everything that takes seconds to import."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from types import FrameType

from unilab.output import keep_output_harmless


def main() -> int:
    """``unilab ...``; returns the exit code."""
    return _run("main")


def script_main(command: str) -> int:
    """``python scripts/<command>.py ...``; returns the exit code."""
    return _run(f"{command}_main")


def trace_report_main() -> int:
    """``python scripts/trace_report.py ...``; returns the exit code."""
    return _run("trace_report", "unilab.report.options")  # needs neither torch nor an env


def _run(name: str, module: str = "unilab.cli") -> int:
    keep_output_harmless()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    # What is imported stays: the collector of garbage need not go through it while a run is timed, nor at its end.
    gc.disable()
    entry = getattr(import_module(module), name)

    gc.freeze()
    gc.enable()
    code: int = entry()
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the outcome is settled; Python's own end would make it another
    return code


def _end(number: int, _: FrameType | None) -> None:
    """Until a run has handlers of its own there is nothing to save, and imports print long tracebacks."""
    sys.stderr.write(f"unilab: ended by {signal.Signals(number).name} before the run began\n")
    sys.stderr.flush()
    os._exit(128 + number)

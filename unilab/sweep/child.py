"""One training run as a process of its own, which ends when this one does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import os, signal, sys, threading
from unilab.main import main

def end_with_parent():
    os.read(0, 1)  # returns when the sweep has ended, however it did
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv[0] = "unilab"
sys.exit(main())
"""


class Training:
    """``unilab train`` with these words; signals that come to this process are the run's."""

    def __init__(self, words: Sequence[str]) -> None:
        # -P: a folder "unilab" where the command is typed is not this package.
        command = [sys.executable, "-P", "-c", _PROGRAM, "train", *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def signal(self, number: signal.Signals) -> None:
        """Pass a signal on."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Exit code, once the run has ended."""
        return self._process.wait()

"""Standard output and error of our processes: what nobody can read any more is lost, and nothing else happens.

A closed pipe (``| head``), a terminal that is gone or a log on a full disk would otherwise raise in whatever prints
next: in the middle of an env's step, say. A stream that was closed before the start is worse: its number goes to the
next file that is opened, and what a library then prints from C lands in the replay.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import sys
from typing import Any, TextIO


def keep_output_harmless() -> None:
    """Make ``sys.stdout`` and ``sys.stderr`` of this process what the module says; the first thing that it does."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Opened in order, so each gets the number that is free; a child of ours inherits it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = _harmless(sys.stdout, 1)
    sys.stderr = _harmless(sys.stderr, 2)
    faulthandler.enable(file=2)  # a native crash shows where in Python it happened


def _harmless(stream: TextIO | None, descriptor: int) -> TextIO:
    """A stream on the same descriptor with the same text settings."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(_Lossy(descriptor)), "utf-8", "backslashreplace")
    try:
        if stream.fileno() != descriptor:
            return stream  # somebody else's, such as a notebook's
    except (OSError, ValueError):
        return stream
    with contextlib.suppress(OSError):
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Lossy(descriptor)),
        stream.encoding,
        stream.errors,
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


class _Lossy(io.RawIOBase):
    """Writes to a descriptor; an error loses the data."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError:
            return len(data)

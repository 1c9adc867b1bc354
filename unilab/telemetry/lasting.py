"""A file of scalars that may fail for a while: a full disk costs rows, never the run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import cast

from unilab.telemetry.lags import Histogram
from unilab.telemetry.reporter import HistogramWriter, Writer

_AGAIN_S = 2.0  # a new file may have to read the old one


class LastingWriter:
    """Hands scalars to a writer; after an error to a new one, tried every few seconds.

    Args:
        name: of the file, for messages.
        make: a writer that continues behind these env steps.
        start_steps: env steps that the file is continued from; 0: a new one.
        note: takes a message when the file fails, and when it works again.
        clock: seconds, never going back.

    Raises:
        OSError: the file cannot be opened at the start.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[int], Writer],
        *,
        start_steps: int,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._make = make
        self._note = note
        self._clock = clock
        self._again_s = 0.0
        self._written = start_steps  # env steps of the last write that went well
        self._writer: Writer | None = make(start_steps)
        self.lost: str | None = None
        """Why the newest scalars are not in the file, in a sentence; None while they are."""

    def write(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Add one step's scalars, or lose them."""
        self._write(env_steps, lambda writer: writer.write(env_steps, scalars))

    def write_histograms(self, env_steps: int, histograms: Mapping[str, Histogram]) -> None:
        """Add one step's histograms, or lose them; to a writer that takes them."""
        self._write(env_steps, lambda writer: cast(HistogramWriter, writer).write_histograms(env_steps, histograms))

    def _write(self, env_steps: int, write: Callable[[Writer], None]) -> None:
        try:
            if self._writer is None:
                if self._clock() < self._again_s:
                    return
                self._writer = self._make(self._written)
            write(self._writer)
        except OSError as error:
            self._fail(error)
            return
        self._written = env_steps
        if self.lost:
            self.lost = None
            self._note(f"{self._name} is written again, from env step {env_steps:,} on; what was due before is missing")

    def close(self) -> None:
        """Flush and close; idempotent."""
        if self._writer:
            try:
                self._writer.close()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self._writer:
            with contextlib.suppress(OSError):  # what it still buffers fails again
                self._writer.close()
            self._writer = None
        self._again_s = self._clock() + _AGAIN_S
        if self.lost is None:
            self.lost = f"{self._name} could not be written: {error.strerror or error}"
            self._note(f"{self.lost}; training goes on")

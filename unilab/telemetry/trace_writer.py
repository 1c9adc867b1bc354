"""The thread of a process that writes its events, so that a slow disk holds up nobody."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from unilab.telemetry.trace_file import NOTICE, TraceFile, TraceFull
from unilab.telemetry.trace_track import LineBuffer, event, quote

PERIOD_S = 0.25  # what a killed process may lose
_PIECE = 512  # lines of one write
_CLOSE_S = 5.0


class TraceWriter:
    """Takes lines out of the buffers of all threads four times a second.

    Args:
        file: of the run.
        names: lines that come first.
        sample: gives a line (or nothing) each time.
    """

    def __init__(self, file: TraceFile, names: list[str], sample: Callable[[], str]) -> None:
        self._file = file
        self._sample = sample
        self._buffers: list[LineBuffer] = []
        self._pending = names
        self._unwritten = 0
        self._closing = threading.Event()
        self._closed = False
        self.lost: str | None = None
        """Why lines could not be written, in a few words."""
        self.full = False
        """Whether the size limit is reached."""
        self._write()  # at once: viewers refuse a file without an event
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
        self._thread.start()

    def add(self, buffer: LineBuffer) -> None:
        """Write this buffer's lines too."""
        self._buffers.append(buffer)

    @property
    def dropped(self) -> int:
        """Lines that did not get into the file."""
        return self._unwritten + sum(buffer.dropped for buffer in list(self._buffers))

    def close(self, pid: int, tid: int, now_us: float) -> None:
        """Write the rest and, where something was dropped, an instant that says so; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():  # in a disk that hangs; it is a daemon
            self.lost = "the disk does not answer"
            return
        if self.dropped:
            notice = quote(f"{NOTICE}{self.dropped} events dropped")
            with contextlib.suppress(OSError, TraceFull):
                self._file.append(event("i", notice, now_us, f'"pid":{pid},"tid":{tid}', ',"s":"p"'), notice=True)
        self._file.close()

    def _run(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(PERIOD_S)
            self._pending += [line for buffer in list(self._buffers) for line in buffer.take()]
            if line := self._sample():
                self._pending.append(line)
            self._write()
        self._unwritten += len(self._pending)

    def _write(self) -> None:
        while self._pending:
            piece = self._pending[:_PIECE]
            try:
                if not self.lost and not self.full:
                    self._file.append("".join(piece))
                else:
                    self._unwritten += len(piece)
            except BlockingIOError:
                # One that was stopped in the middle of a write has the lock: the threads' own buffers are the bound.
                if len(self._pending) > 100 * _PIECE:
                    self.lost = "another process holds its lock"
                return
            except TraceFull:
                self.full = True
                continue
            except OSError as error:
                self.lost = error.strerror or str(error)
                continue
            del self._pending[: len(piece)]

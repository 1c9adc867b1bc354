"""The file of a trace: one for all processes of a run, loadable at any instant.

It is a JSON array of events, one a line. Viewers accept it without its end, so a killed run leaves a trace that loads;
``end_trace`` closes the array for strict readers. Processes append whole lines under a file lock that the kernel takes
from whoever dies; what a killed process or a full disk left of a line is cut off before anyone writes behind it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

NAME = "trace.json"
NOTICE = "trace cut: "
"""Begins the name of the instant that says how many events were dropped."""

_START, _BETWEEN, _END = b"[\n", b",\n", b"\n]"  # the end takes the place of the last comma: it fits on a full disk
_LOCK_TRIES, _LOCK_PAUSE_S = 50, 0.002
_NOTICE_BYTES = 2**12  # beyond the limit, for what says that there was one
_LOOK_BACK = 2**16
_TAIL = 2**20


class TraceFull(Exception):
    """The size limit is reached."""


class TraceFile:
    """The run's trace, opened by one process; a part of it that cannot be written is an ``OSError`` each time.

    Args:
        path: made by ``begin_trace``.
        max_bytes: of all processes together.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._fd = -1

    def append(self, lines: str, *, notice: bool = False) -> None:
        """Add whole lines, all of them or none.

        Args:
            lines: events.
            notice: goes beyond the limit.

        Raises:
            BlockingIOError: another process is at it, for longer than it should; try again.
            TraceFull: no room below the limit.
            OSError: the disk does not take them, or the file was removed.
        """
        data = lines.encode()
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        with _locked(self._fd):
            if not os.fstat(self._fd).st_nlink:
                raise FileNotFoundError(errno.ENOENT, f"{self._path.name} was removed")
            end = _cut_to_whole_lines(self._fd)
            if end + len(data) > self._max_bytes + (_NOTICE_BYTES if notice else 0):
                raise TraceFull
            try:
                written = os.write(self._fd, data)
            except OSError:
                os.ftruncate(self._fd, end)
                raise
            if written != len(data):
                os.ftruncate(self._fd, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Give the descriptor back; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def begin_trace(run_dir: Path, first: str = "") -> Path:
    """Make a trace for the processes to open; that of an earlier start of the run becomes ``trace_1.json``, ...

    Args:
        run_dir: where.
        first: events that are in it from the first instant: viewers refuse a file without one.

    Raises:
        OSError: it cannot be made.
    """
    path, aside = run_dir / NAME, run_dir / f".{NAME}"
    aside.write_bytes(_START + first.encode())
    if path.exists():
        names = (run_dir / f"trace_{number}.json" for number in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))
    aside.rename(path)
    return path


def end_trace(run_dir: Path) -> Path:
    """Close the array; all other processes have ended.

    Raises:
        OSError: the file is gone or cannot be written.
    """
    path = run_dir / NAME
    with open(path, "r+b", buffering=0) as file, _locked(file.fileno()):
        end = _cut_to_whole_lines(file.fileno())
        os.pwrite(file.fileno(), b"[]" if end == len(_START) else _END, end - len(_END))
    return path


def was_cut(path: Path) -> bool:
    """Whether a process has said at its end that it dropped events."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return NOTICE.encode() in file.read()
    except OSError:
        return False


def _cut_to_whole_lines(fd: int) -> int:
    """Remove what follows the last newline; returns the size."""
    size = end = os.fstat(fd).st_size
    last = os.pread(fd, 1, size - 1) if size else b""
    if last == b"\n":
        return size
    if last == b"]":
        raise FileExistsError(errno.EEXIST, "it has been ended")
    while end > len(_START):
        start = max(0, end - _LOOK_BACK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        end = start + newline + 1
        if newline >= 0:
            break
    os.ftruncate(fd, end)
    return end


@contextlib.contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Hold the file's lock; on a file system that has none, hold nothing."""
    locked = False
    try:
        for attempt in range(_LOCK_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
                break
            except BlockingIOError:
                if attempt == _LOCK_TRIES - 1:
                    raise
                time.sleep(_LOCK_PAUSE_S)
            except OSError:
                break
        yield
    finally:
        if locked:
            fcntl.flock(fd, fcntl.LOCK_UN)

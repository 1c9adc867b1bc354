"""Replay segments: files of consecutive rows, written once and shared by the checkpoints that need them.

A segment is nothing but records, one a row, oldest first: ``row_width`` little-endian float32, then the int64 policy
version. ``numpy.fromfile(path, record(row_width))`` reads one.

What a new checkpoint needs and the one before it has is linked, the rest is written from the ring. The newest segments
are written again together with it while they are less than twice as large. So sizes at least halve from each segment
to the next, there are O(log n) of them, and a row is written O(log n) times.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import Ring

_CHUNK = 2 * 2**20  # bytes read, hashed and written at a time
_NAME = re.compile(r"replay(\d*)_(-?\d{11,})_(-?\d{11,})\.rows")  # preloaded rows have negative numbers

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A file with rows [start, stop), known to be as it was written."""

    start: int
    stop: int
    sha256: str
    stamp: Stamp
    """Of the file when it was known to be right; see ``stamp``."""
    ring: int = 0
    """Which of a run's rings, one a collector, the rows are of."""

    @property
    def rows(self) -> int:
        """Rows in it."""
        return self.stop - self.start

    @property
    def name(self) -> str:
        """File name."""
        return segment_name(self.start, self.stop, self.ring)


class Sink(Protocol):
    """Where records go."""

    def write(self, data: memoryview, /) -> int:
        """Append all of the bytes."""


def segment_name(start: int, stop: int, ring: int = 0) -> str:
    """File name of rows [start, stop) of a ring; that of the first ring does not say its number."""
    return f"replay{ring or ''}_{start:012d}_{stop:012d}.rows"


def rows_of(name: str) -> tuple[int, int, int] | None:
    """Ring, first row and end of the segment of this name; None if it is not a segment's."""
    found = _NAME.fullmatch(name)
    return (int(found[1] or 0), int(found[2]), int(found[3])) if found else None


def record(row_width: int) -> np.dtype[Any]:
    """One row on disk."""
    return np.dtype([("row", "<f4", (row_width,)), ("version", "<i8")])


def stamp(path: Path) -> Stamp:
    """What changes when a file is written to or replaced: inode, bytes, time of the last change in ns."""
    about = os.stat(path)
    return about.st_ino, about.st_size, about.st_mtime_ns


def plan_segments(have: Sequence[Segment], low: int, stop: int) -> tuple[list[Segment], int]:
    """Which segments a checkpoint of rows [low, stop) takes over, and from which row on it writes a new one.

    Args:
        have: of the checkpoint before, in order and without gaps.
        low: first row needed.
        stop: end of the rows needed.

    Returns:
        Segments that cover [low, fresh), the first perhaps with older rows too, and ``fresh``.
    """
    kept = [segment for segment in have if segment.stop > low]
    if not kept or kept[0].start > low or kept[-1].stop > stop:
        return [], low
    fresh = kept[-1].stop
    while kept and fresh < stop and kept[-1].rows < 2 * (stop - fresh):
        fresh = max(low, kept.pop().start)
    return kept, fresh


def write_rows(sink: Sink, ring: Ring, start: int, stop: int, copied: Callable[[int], None]) -> None:
    """Write rows [start, stop) of a ring as records.

    Args:
        sink: receives the bytes.
        ring: nobody may overwrite row r of it before ``copied`` was called with a number above r.
        start: first row.
        stop: end of the rows.
        copied: told, again and again, the first row that is still to be read.
    """
    records = _buffer(ring.layout.width)
    for part in range(start, stop, len(records)):
        end = min(part + len(records), stop)
        done = 0
        for rows in ring.read(part, end):
            records["row"][done : done + len(rows)] = rows
            done += len(rows)
        records["version"][:done] = ring.versions(part, end)
        copied(end)
        sink.write(records[:done].view(np.uint8).data)


def read_rows(path: Path, row_width: int, sha256: str) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Rows and versions of a segment, some at a time, each valid until the next is asked for.

    Raises:
        OSError: the file cannot be read.
        ValueError: at the end, if the file is not what was saved.
    """
    records = _buffer(row_width)
    raw = records.view(np.uint8).data
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while count := file.readinto(raw):
            sha.update(raw[:count])
            whole = records[: count // records.dtype.itemsize]
            yield whole["row"], whole["version"]
    if sha.hexdigest() != sha256:
        raise ValueError("its checksum differs from what was saved")


def _buffer(row_width: int) -> NDArray[Any]:
    kind = record(row_width)
    return np.empty(max(1, _CHUNK // kind.itemsize), kind)

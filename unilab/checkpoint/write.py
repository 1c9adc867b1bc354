"""Writes the files of one checkpoint into a draft directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch

from unilab.checkpoint.meta import META, SCHEMA, STATE, encode_meta
from unilab.durable import DurableFile
from unilab.replay.ring import Ring
from unilab.replay.segments import Segment, plan_segments, segment_name, stamp, write_rows


@dataclass(frozen=True, slots=True)
class Known:
    """Segments of an earlier checkpoint that may be linked: this process wrote them or verified them."""

    folder: Path
    segments: tuple[tuple[Segment, ...], ...]  # of each ring


def write_replay(
    draft: Path, ring: Ring, rows: tuple[int, int], known: Known | None, needed_from: Callable[[int], None]
) -> tuple[Segment, ...]:
    """Link the segments of a ring that are known and write its other rows, oldest first.

    Args:
        draft: receives the files.
        ring: holds the rows.
        rows: [low, stop) to be saved.
        known: what may be linked.
        needed_from: told, again and again, the first row that is still to be read from the ring.

    Returns:
        The segments, which cover the rows; the first perhaps has older ones too.
    """
    low, stop = rows
    linked, fresh = plan_segments(known.segments[ring.index], low, stop) if known else ([], low)
    if known and not _link(draft, known.folder, linked):
        linked, fresh = [], low
    needed_from(fresh)
    if fresh == stop:
        return tuple(linked)
    path = draft / segment_name(fresh, stop, ring.index)
    with DurableFile(path) as file:
        write_rows(file, ring, fresh, stop, needed_from)
    return (*linked, Segment(fresh, stop, file.sha256, stamp(path), ring.index))


def write_state(draft: Path, state: Mapping[str, Any]) -> str:
    """Write ``state.pt``; returns its SHA-256."""
    with DurableFile(draft / STATE) as file:
        sink = _Calm(file)
        torch.save({"schema": SCHEMA, **state}, cast(IO[bytes], sink))
        if sink.error:
            raise sink.error
    return file.sha256


def write_meta(draft: Path, meta: Mapping[str, Any], sums: Mapping[str, str]) -> None:
    """Write ``meta.json``: last, because it lists the other files.

    Args:
        draft: receives it.
        meta: JSON values.
        sums: SHA-256 of the other files by name.
    """
    files = {name: {"bytes": os.stat(draft / name).st_size, "sha256": sha256} for name, sha256 in sums.items()}
    with DurableFile(draft / META) as file:
        file.write(encode_meta({"schema": SCHEMA, **meta, "files": files}))


def _link(draft: Path, folder: Path, segments: Sequence[Segment]) -> bool:
    """Link all or none. False where one has changed since it was known, or where links are refused.

    The rows are all in the ring, so writing them is no more work than copying the files.
    """
    try:
        for segment in segments:
            os.link(folder / segment.name, draft / segment.name)
            if stamp(draft / segment.name) != segment.stamp:
                raise FileNotFoundError(segment.name)
    except OSError:
        for segment in segments:
            (draft / segment.name).unlink(missing_ok=True)
        return False
    return True


class _Calm:
    """What torch writes to: an error is kept for later, because torch turns one in the middle into another."""

    def __init__(self, file: DurableFile) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""

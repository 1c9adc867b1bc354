"""Reads checkpoints back; nothing in them is believed before its checksum agrees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.checkpoint.meta import SCHEMA, STATE, read_meta, spoilt
from unilab.checkpoint.verify import check_content, check_size, segments_of
from unilab.errors import ConfigError
from unilab.replay.ring import RANDOM_POLICY, Ring
from unilab.replay.segments import Segment, read_rows, stamp


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read the state of a checkpoint directory, on CPU; the replay is not looked at.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    meta = read_meta(path)
    check_size(path, STATE, meta)
    check_content(path, STATE, meta)
    try:
        state: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except Exception as error:
        raise spoilt(path / STATE, f"{type(error).__name__}: {error}") from error
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise spoilt(path / STATE, f"it holds no state of schema {SCHEMA}")
    return state


def load_replay(path: Path, rings: Sequence[Ring]) -> list[list[Segment]]:
    """Read the rows of a checkpoint directory into the empty rings of a run, under their own numbers.

    Args:
        path: the checkpoint.
        rings: as many as the checkpoint's run had. They hold the rows afterwards, their cursors where they were when
            these were saved. They may have other capacities, as long as the rows fit. After an error they are useless.

    Returns:
        The segments of each, now verified, for ``Checkpoints.adopt``.

    Raises:
        ConfigError: names the file and what is wrong with it, or says why the rows do not fit.
    """
    meta = read_meta(path)
    files = segments_of(path, meta)
    _check_width(path, meta, rings[0].layout.width)
    if len(files) != len(rings):
        raise ConfigError(f"{path} was saved with num_collectors={len(files)}, this run has {len(rings)}")
    return [
        _load_ring(path, meta, ring, span, found)
        for ring, span, found in zip(rings, meta["replay"]["rows"], files, strict=True)
    ]


def preloadable(path: Path, row_width: int) -> int:
    """Rows of a checkpoint's replay that another run of the same row width may start with.

    Raises:
        ConfigError: it holds no replay, or one of another width.
    """
    meta = read_meta(path)
    segments_of(path, meta)
    _check_width(path, meta, row_width)
    return sum(int(stop - low) for low, stop in meta["replay"]["rows"])


def preload(path: Path, rings: Sequence[Ring], shares: Sequence[int]) -> None:
    """Read the newest rows of a checkpoint into the empty rings of a run, ring i those from -``shares[i]`` to -1.

    So a run counts its own rows from 0 on, as ever. Their policy versions are another run's, and count as random.

    Args:
        path: the checkpoint, of a run with any number of collectors.
        rings: of the run.
        shares: rows for each; together no more than there are.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    meta = read_meta(path)
    width = rings[0].layout.width
    files, spans = segments_of(path, meta), meta["replay"]["rows"]
    newest = _newest([stop - low for low, stop in spans], sum(shares))
    into = _Filling(rings, shares)
    for found, (_, stop), count in zip(files, spans, newest, strict=True):
        for start, _, name in found:
            number = start - stop
            try:
                for part, _ in read_rows(path / name, width, meta["files"][name]["sha256"]):
                    into.add(part[min(len(part), max(0, -count - number)) :])  # without those older than wanted
                    number += len(part)
            except (OSError, ValueError) as error:
                raise spoilt(path / name, str(error)) from error


class _Filling:
    """Rows go into one ring after the other, each until it has its share."""

    def __init__(self, rings: Sequence[Ring], shares: Sequence[int]) -> None:
        self._left = [(ring, share) for ring, share in zip(rings, shares, strict=True) if share]

    def add(self, rows: NDArray[np.float32]) -> None:
        while len(rows):
            ring, share = self._left[0]
            part, rows = rows[:share], rows[share:]
            ring.restore(-share, part, np.full(len(part), RANDOM_POLICY, np.int64))
            self._left[0] = ring, share - len(part)
            if len(part) == share:
                self._left.pop(0)


def _newest(held: Sequence[int], wanted: int) -> list[int]:
    """How many of the rows held by each ring to take: the same share of each, all of them where all are wanted."""
    ends = [wanted * sum(held[: i + 1]) // max(1, sum(held)) for i in range(len(held))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _check_width(path: Path, meta: dict[str, Any], row_width: int) -> None:
    if (width := meta["replay"]["row_width"]) != row_width:
        raise ConfigError(
            f"{path} holds rows of {width} numbers and this run's have {row_width}: its env has other spaces"
        )


def _load_ring(
    path: Path, meta: dict[str, Any], ring: Ring, span: Sequence[int], files: Sequence[tuple[int, int, str]]
) -> list[Segment]:
    low, stop = span
    if stop - low > ring.capacity:
        raise ConfigError(
            f"{path} holds {stop - low:,} transitions; replay.buffer_size={ring.capacity:,} is too small for them"
        )
    width = ring.layout.width
    ring.restore(low, np.empty((0, width), np.float32), np.empty(0, np.int64))  # there may be no rows at all
    return [_load_segment(path, name, meta, ring, start, end) for start, end, name in files]


def _load_segment(path: Path, name: str, meta: dict[str, Any], ring: Ring, start: int, end: int) -> Segment:
    check_size(path, name, meta)
    sha256, before, number = meta["files"][name]["sha256"], stamp(path / name), start
    try:
        for rows, versions in read_rows(path / name, ring.layout.width, sha256):
            older = max(0, ring.cursor - number)  # than what the checkpoint needs
            if older < len(rows):
                ring.restore(number + older, rows[older:], versions[older:])
            number += len(rows)
    except (OSError, ValueError) as error:
        raise spoilt(path / name, str(error)) from error
    return Segment(start, end, sha256, before, ring.index)

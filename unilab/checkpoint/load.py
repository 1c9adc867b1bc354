"""Reads checkpoints back; nothing in them is believed before its checksum agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

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


def load_replay(path: Path, ring: Ring) -> list[Segment]:
    """Read the rows of a checkpoint directory into an empty ring, under their own numbers.

    Args:
        path: the checkpoint.
        ring: holds them afterwards, its cursor where it was when they were saved. It may have another capacity, as
            long as they fit. After an error it is of no use.

    Returns:
        The segments, now verified, for ``Checkpoints.adopt``.

    Raises:
        ConfigError: names the file and what is wrong with it, or says why the rows do not fit the ring.
    """
    meta = read_meta(path)
    files = segments_of(path, meta)
    (low, stop), width = meta["replay"]["rows"], meta["replay"]["row_width"]
    if width != ring.layout.width:
        raise ConfigError(
            f"{path} holds rows of {width} numbers and this run's have {ring.layout.width}: its env has other spaces"
        )
    if stop - low > ring.capacity:
        raise ConfigError(
            f"{path} holds {stop - low:,} transitions; replay.buffer_size={ring.capacity:,} is too small for them"
        )
    ring.restore(low, np.empty((0, width), np.float32), np.empty(0, np.int64))  # there may be no rows at all
    return [_load_segment(path, name, meta, ring, start, end) for start, end, name in files]


def preloadable(path: Path, row_width: int) -> int:
    """Rows of a checkpoint's replay that another run of the same row width may start with.

    Raises:
        ConfigError: it holds no replay, or one of another width.
    """
    meta = read_meta(path)
    segments_of(path, meta)
    (low, stop), width = meta["replay"]["rows"], meta["replay"]["row_width"]
    if width != row_width:
        raise ConfigError(f"{path} holds rows of {width} numbers and this run's have {row_width}: another env's spaces")
    return int(stop - low)


def preload(path: Path, ring: Ring, rows: int) -> None:
    """Read the newest rows of a checkpoint into an empty ring, as rows -``rows`` to -1.

    So a run counts its own rows from 0 on, as ever. Their policy versions are another run's, and count as random.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    meta = read_meta(path)
    stop = meta["replay"]["rows"][1]
    for start, _, name in segments_of(path, meta):
        number = start - stop
        try:
            for part, _ in read_rows(path / name, ring.layout.width, meta["files"][name]["sha256"]):
                older = min(len(part), max(0, -rows - number))  # than what is wanted
                if older < len(part):
                    newer = part[older:]
                    ring.restore(number + older, newer, np.full(len(newer), RANDOM_POLICY, np.int64))
                number += len(part)
        except (OSError, ValueError) as error:
            raise spoilt(path / name, str(error)) from error


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
    return Segment(start, end, sha256, before)

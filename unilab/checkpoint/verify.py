"""Whether the files of a checkpoint are what was saved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unilab.checkpoint.meta import META, read_meta, spoilt
from unilab.replay.segments import rows_of


def verify(path: Path, *, replay: bool = True) -> None:
    """Check every file of a checkpoint directory against its checksum.

    Args:
        path: the checkpoint.
        replay: look at the replay's segments too, which may be gigabytes.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    meta = read_meta(path)
    for name in meta["files"]:
        if replay or not rows_of(name):
            check_size(path, name, meta)
            check_content(path, name, meta)


def check_size(path: Path, name: str, meta: Mapping[str, Any]) -> None:
    """Check that a file is there and as long as it was.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    expected = meta["files"][name]["bytes"]
    try:
        nbytes = (path / name).stat().st_size
    except OSError as error:
        raise spoilt(path / name, error.strerror or str(error)) from error
    if nbytes != expected:
        raise spoilt(path / name, f"it has {nbytes:,} bytes of the {expected:,} that were saved")


def check_content(path: Path, name: str, meta: Mapping[str, Any]) -> None:
    """Check a file's bytes.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    try:
        with open(path / name, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise spoilt(path / name, error.strerror or str(error)) from error
    if sha256 != meta["files"][name]["sha256"]:
        raise spoilt(path / name, "its checksum differs from what was saved")


def segments_of(path: Path, meta: Mapping[str, Any]) -> list[list[tuple[int, int, str]]]:
    """First row, end and name of each segment, in order and without gaps, of each ring of the replay.

    Raises:
        ConfigError: the checkpoint holds no replay, or not all of it.
    """
    if not meta["replay"]:
        raise spoilt(path / META, "it holds no replay")
    found = sorted((*place, name) for name in meta["files"] if (place := rows_of(name)))
    return [
        _without_gaps(path, low, stop, [segment for of, *segment in found if of == ring])
        for ring, (low, stop) in enumerate(meta["replay"]["rows"])
    ]


def _without_gaps(path: Path, low: int, stop: int, found: list[Any]) -> list[tuple[int, int, str]]:
    bounds = [low, *(end for _, end, _ in found)]
    starts = [start for start, _, _ in found]
    if bounds[-1] != stop or starts[1:] != bounds[1:-1] or (starts and starts[0] > low):
        raise spoilt(path / META, f"its segments do not hold rows [{low}, {stop})")
    return [(start, end, name) for start, end, name in found]

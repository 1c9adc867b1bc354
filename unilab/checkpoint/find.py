"""From what a user names, a run or one of its parts, to a checkpoint that can be loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

from unilab.checkpoint.folder import list_checkpoints
from unilab.checkpoint.meta import META, STATE
from unilab.checkpoint.verify import verify
from unilab.errors import ConfigError


class Found(NamedTuple):
    """The checkpoint to load, and the newer ones that were passed over."""

    path: Path
    skipped: list[tuple[Path, str]]
    """Spoilt checkpoints and what is wrong with each, newest first."""


def find_checkpoint(where: Path, *, replay: bool = True) -> Found:
    """The newest valid checkpoint of a run, or the one that is named.

    Args:
        where: a run directory, its ``checkpoints``, one checkpoint, or the ``state.pt`` in it.
        replay: look at the replay's files too, which may be gigabytes; False: only the state must be whole.

    Raises:
        ConfigError: nothing there can be loaded; names the file and the reason, in one line.
    """
    if not where.exists():
        raise ConfigError(f"{where} does not exist: name a run directory or one of its checkpoints")
    if where.is_file():
        if where.name not in (STATE, META) or not (where.parent / META).is_file():
            raise ConfigError(f"{where} is not a checkpoint: {_kind(where)}")
        where = where.parent
    if (where / STATE).is_file() or where.name.startswith("step_"):
        verify(where, replay=replay)
        return Found(where, [])
    return _newest(where / "checkpoints" if (where / "checkpoints").is_dir() else where, replay=replay)


def _newest(directory: Path, *, replay: bool) -> Found:
    skipped: list[tuple[Path, str]] = []
    for path in reversed(list_checkpoints(directory)):
        try:
            verify(path, replay=replay)
            return Found(path, skipped)
        except ConfigError as error:
            skipped.append((path, str(error)))
    if not skipped:
        raise ConfigError(f"{directory} holds no checkpoint (step_*/{STATE} and {META})")
    raise ConfigError(f"{directory} holds no valid checkpoint: {'; '.join(reason for _, reason in skipped)}")


def _kind(file: Path) -> str:
    """What a file that is no part of a checkpoint is."""
    try:
        with open(file, "rb") as stream:
            start = stream.read(4)
        if not start:
            return "it is empty"
        if zipfile.is_zipfile(file):
            return f"a checkpoint is a directory with {STATE}, {META} and the replay; name that directory"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if start == b"PK\x03\x04":
        return "it is a torch file that was cut short"
    return "it is not a file that torch wrote"

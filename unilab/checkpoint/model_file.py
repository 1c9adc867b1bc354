"""One file with a trained model: networks, optimisers, normaliser and config, without the replay."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from unilab.checkpoint.find import find_checkpoint
from unilab.checkpoint.load import load_checkpoint
from unilab.checkpoint.meta import META, SCHEMA, STATE, one_line
from unilab.errors import ConfigError

_KIND = "unilab model"
_KEPT = ("tick", "updates", "wall_time_s", "policy", "learner")


def save_model(path: Path, state: Mapping[str, Any], *, config: str, env_steps: int) -> None:
    """Write what a checkpoint's state knows of the model; a file of that name is replaced, by a whole one.

    Raises:
        ConfigError: it cannot be written.
    """
    content = {name: state[name] for name in _KEPT}
    content |= {"kind": _KIND, "schema": SCHEMA, "config": config, "env_steps": env_steps}
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def is_model_file(path: Path) -> bool:
    """Whether this may be a file of ``save_model``, and is no part of a checkpoint."""
    return path.is_file() and path.name not in (STATE, META) and zipfile.is_zipfile(path)


def load_state(where: Path) -> dict[str, Any]:
    """The state in a run directory (of its newest checkpoint), a checkpoint, or a file of ``save_model``.

    Raises:
        ConfigError: there is none, or it cannot be read; names the file and the reason, in one line.
    """
    if not is_model_file(where):
        return load_checkpoint(find_checkpoint(where, replay=False).path)
    try:
        state = torch.load(where, map_location="cpu", weights_only=True)
        damaged = zipfile.ZipFile(where).testzip()  # torch does not look at the checksums
    except Exception as error:
        raise ConfigError(f"{where} is not a readable model: {one_line(f'{type(error).__name__}: {error}')}") from error
    if damaged:
        raise ConfigError(f"{where} is not a readable model: the checksum of {damaged} differs from what was saved")
    if not isinstance(state, dict) or state.get("kind") != _KIND:
        find_checkpoint(where)  # says what it is instead
        raise ConfigError(f"{where} was not saved by unilab")
    if state["schema"] != SCHEMA:
        raise ConfigError(f"{where} was saved by another version of unilab (schema {state['schema']}, not {SCHEMA})")
    return state

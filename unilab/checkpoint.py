"""Checkpoints: one directory each, whole or not there.

A checkpoint is written into a directory whose name starts with a dot, synced, then renamed. Whoever is killed
in the middle leaves a dotted directory, which nobody reads and the next save removes. The checksum of a state
lies in the JSON file beside it: torch does not look at the checksums in its own files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from unilab.errors import ConfigError

SCHEMA = 1
_STATE, _META = "state.pt", "meta.json"


class Checkpoints:
    """The ``checkpoints`` directory of a run.

    Args:
        directory: created if needed.
        keep: newest checkpoints kept; 0 keeps all.
    """

    def __init__(self, directory: Path, *, keep: int) -> None:
        self.directory = directory
        self._keep = keep
        directory.mkdir(parents=True, exist_ok=True)

    def save(self, env_steps: int, state: Mapping[str, Any], meta: Mapping[str, Any]) -> Path:
        """Write ``step_<env_steps>``, replacing one of the same name.

        Args:
            env_steps: rows ever appended.
            state: nested dicts of tensors, numbers and strings: loads with ``weights_only=True``.
            meta: JSON values, for people and tools.
        """
        final = self.directory / f"step_{env_steps:012d}"
        draft = self.directory / f".{final.name}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        _write_synced(draft / _STATE, lambda file: torch.save({"schema": SCHEMA, **state}, file))
        about = {"schema": SCHEMA, "env_steps": env_steps, **meta, "sha256": _checksum(draft / _STATE)}
        text = json.dumps(about, indent=2) + "\n"
        _write_synced(draft / _META, lambda file: file.write(text.encode()))
        _sync_directory(draft)
        self._move_aside(final)
        os.replace(draft, final)
        _sync_directory(self.directory)
        self._prune()
        return final

    def _move_aside(self, old: Path) -> None:
        """Take the old checkpoint of a step out of the way; a rename is short, deleting it is not."""
        aside = self.directory / f".{old.name}.old"
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.replace(old, aside)

    def _prune(self) -> None:
        for draft in self.directory.glob(".step_*"):
            shutil.rmtree(draft, ignore_errors=True)
        if self._keep:
            for old in list_checkpoints(self.directory)[: -self._keep]:
                shutil.rmtree(old, ignore_errors=True)


def list_checkpoints(directory: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(path for path in directory.glob("step_*") if (path / _STATE).is_file())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read the state of a checkpoint directory, on CPU.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    file = path / _STATE
    try:
        expected = json.loads((path / _META).read_text()).get("sha256")  # absent in the first ones
        if expected is not None and _checksum(file) != expected:
            raise ValueError("its checksum differs from what was saved")
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ConfigError(f"{file} is not a readable checkpoint: {type(error).__name__}: {error}") from error
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise ConfigError(f"{file} is not a checkpoint of this version (schema {SCHEMA})")
    return state


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_synced(path: Path, write: Any) -> None:
    with open(path, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

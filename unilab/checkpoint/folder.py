"""The directory with the checkpoints of a run: its names, and the renames after which any kill leaves whole ones.

``step_<env_steps>`` is a checkpoint. A name with a dot in front is being written (``.draft``), deleted (``.gone``) or
replaced (``.old``). The directory belongs to one run, so whatever has a dot when a save begins was left by a process
that was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from unilab.checkpoint.meta import META, STATE
from unilab.durable import sync_directory


def checkpoint_name(env_steps: int) -> str:
    """Directory of the checkpoint after so many env steps; sorts by them."""
    return f"step_{env_steps:012d}"


def steps_of(path: Path) -> int:
    """Env steps in the name of a checkpoint's directory, also of one that is being replaced."""
    return int(path.name.removeprefix(".").removesuffix(".old").rpartition("_")[2])


def draft_path(final: Path) -> Path:
    """Where a checkpoint is written before it gets its name."""
    return final.with_name(f".{final.name}.draft")


def list_checkpoints(directory: Path) -> list[Path]:
    """Checkpoints, oldest first: those that have all names; what is in the files is not looked at."""
    found = [*directory.glob("step_*"), *(old for old in directory.glob(".step_*.old") if not _replaced(old).exists())]
    return sorted(
        (path for path in found if (path / STATE).is_file() and (path / META).is_file()),
        key=lambda path: path.name.strip("."),
    )


def put_in_place(draft: Path, final: Path) -> None:
    """Give a finished draft its name, in place of an older checkpoint of that name.

    Raises:
        OSError: ``sweep`` tidies up.
    """
    sync_directory(draft)
    if final.exists():
        # Between these renames the old one is found under its dotted name, by readers and by ``sweep``.
        os.replace(final, _aside(final))
    os.replace(draft, final)
    sync_directory(final.parent)
    shutil.rmtree(_aside(final), ignore_errors=True)


def prune(directory: Path, newest: Path, keep: int) -> None:
    """Delete all but ``keep`` checkpoints up to ``newest``, those with fewer env steps first; 0 keeps all.

    Checkpoints with more env steps stay: they are of an attempt that this run went back behind.
    """
    if not keep:
        return
    for old in [path for path in list_checkpoints(directory) if path.name <= newest.name][:-keep]:
        # One that is half deleted has no checkpoint's name.
        gone = old.with_name(f".{old.name}.gone")
        with contextlib.suppress(OSError):
            os.replace(old, gone)
            shutil.rmtree(gone)


def sweep(directory: Path) -> None:
    """Remove what a killed or failed save left; a checkpoint that it was about to replace gets its name back."""
    for left in directory.glob(".step_*"):
        with contextlib.suppress(OSError):
            if left.suffix == ".old" and not _replaced(left).exists():
                os.replace(left, _replaced(left))
            else:
                shutil.rmtree(left)


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def _replaced(aside: Path) -> Path:
    return aside.with_name(aside.name.removeprefix(".").removesuffix(".old"))

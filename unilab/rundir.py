"""What a run leaves on disk, except checkpoints: its directory, config, origin and summary."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("unilab-offpolicy", "torch", "numpy", "gymnasium", "mujoco", "tyro", "tensorboard")


@dataclass(slots=True)
class RunSummary:
    """The outcome of a run, also of one that failed; ``summary.json``.

    Returns are None where nothing was measured, never a made-up zero.
    """

    status: str  # completed, interrupted, failed
    reason: str  # one line
    exit_code: int
    env_steps: int = 0
    updates: int = 0
    ticks: int = 0
    wall_time_s: float = 0.0
    env_steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    final_eval_mean: float | None = None
    final_eval_std: float | None = None
    best_return: float | None = None  # best mean over 100 training episodes
    mean_ep_length: float | None = None  # over the last 100 training episodes
    learner_digest: str | None = None
    replay_digest: str | None = None
    checkpoint: str | None = None
    trace: str | None = None


def create_run_dir(root: Path, env_id: str, algo: str, seed: int, name: str | None) -> Path:
    """Make ``root/<env>/<algo>/<name or time_s<seed>>`` and point ``root/latest`` at it.

    Two runs that start in the same second get two directories.

    Raises:
        FileExistsError: a run of this explicit name exists.
        OSError: the place cannot be written.
    """
    parent = root / env_id.rpartition(":")[2].replace("/", "-") / algo
    parent.mkdir(parents=True, exist_ok=True)
    base = name or f"{time.strftime('%Y%m%d-%H%M%S')}_s{seed}"
    for attempt in range(1, 1000):
        path = parent / (base if attempt == 1 else f"{base}_{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            if name:
                raise
        else:
            _point_latest(root, path)
            return path
    raise FileExistsError(f"{parent} holds too many runs named {base}")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write strict JSON through a dotted draft, so that readers never see half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(_strict(content), indent=2, allow_nan=False) + "\n")
    os.replace(draft, path)


def write_summary(run_dir: Path, summary: RunSummary) -> None:
    """Write ``summary.json``."""
    write_json(run_dir / "summary.json", asdict(summary))


def origin() -> dict[str, Any]:
    """Where a run comes from: versions, git state, arguments, host."""
    return {
        "argv": sys.argv,
        "cwd": os.getcwd(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {"python": platform.python_version(), **_versions()},
        "git": _git_state(),
        "host": {"name": platform.node(), "system": platform.platform(), "cores": os.cpu_count()},
    }


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the checkout that unilab is imported from, if it is one."""
    here = Path(__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return None
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(here, "status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=5, check=True)
    return done.stdout.strip()


def _point_latest(root: Path, path: Path) -> None:
    """Point ``latest`` at the run; a convenience, so a file system without links is no failure."""
    draft = root / f".latest.{os.getpid()}"
    with contextlib.suppress(OSError):
        draft.unlink(missing_ok=True)
        draft.symlink_to(path.relative_to(root), target_is_directory=True)
        os.replace(draft, root / "latest")


def _strict(value: Any) -> Any:
    """NaN and infinities as strings: JSON has no words for them."""
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

"""What a run leaves on disk, except checkpoints: its directory, config, origin and summary."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from unilab.errors import ConfigError

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
    best_eval_mean: float | None = None  # of best/, which holds its weights
    best_return: float | None = None  # best mean over 100 training episodes
    mean_ep_length: float | None = None  # over the last 100 training episodes
    learner_digest: str | None = None
    replay_digest: str | None = None
    skipped_steps: int = 0  # env steps whose transition was not stored, because of a NaN or an infinity
    restarts: int = 0  # of collectors that died or hung
    checkpoint: str | None = None
    trace: str | None = None


def runs_folder(root: Path, env_id: str, algo: str) -> Path:
    """Where the runs of an env and an algorithm are."""
    return root / env_id.rpartition(":")[2].replace("/", "-") / algo


def create_run_dir(root: Path, env_id: str, algo: str, seed: int, name: str | None) -> Path:
    """Make ``root/<env>/<algo>/<name or time_s<seed>>`` and point ``root/latest`` at it.

    Two runs that start in the same second get two directories.

    Raises:
        FileExistsError: a run of this explicit name exists.
        OSError: the place cannot be written.
    """
    parent = runs_folder(root, env_id, algo)
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


@contextlib.contextmanager
def run_lock(run_dir: Path) -> Iterator[None]:
    """Keep other processes from running in this directory; the kernel lets go when this one ends, however it ends.

    Raises:
        ConfigError: another process does, or the directory cannot be written.
    """
    try:
        descriptor = os.open(run_dir / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigError(f"{run_dir} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{run_dir} is in use: another process runs it") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write strict JSON through a dotted draft, so that readers never see half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(strict_json(content), indent=2, allow_nan=False) + "\n")
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def strict_json(value: Any) -> Any:
    """A copy with NaN and infinities as strings: JSON has no words for them."""
    if isinstance(value, dict):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_meta(run_dir: Path, content: dict[str, Any]) -> None:
    """Write ``meta.json``; what earlier starts of the run wrote stays, under ``earlier``."""
    file = run_dir / "meta.json"
    with contextlib.suppress(OSError, ValueError):
        before = json.loads(file.read_text())
        content = content | {"earlier": [*before.pop("earlier", []), before]}
    write_json(file, content)


def write_summary(run_dir: Path, summary: RunSummary) -> None:
    """Write ``summary.json``, also where the run's directory has vanished meanwhile.

    Raises:
        OSError: it cannot be written.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
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

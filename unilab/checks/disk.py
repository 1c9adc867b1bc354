"""The log directory: may it be written, and does it hold what a run leaves?"""

from __future__ import annotations

import os
import shutil
import tempfile
from math import ceil
from pathlib import Path

from unilab.algos.registry import ALGORITHMS, Algorithm
from unilab.budget import format_bytes
from unilab.checks.finding import Finding, fail, ok, warn
from unilab.config import TrainConfig
from unilab.spec import EnvSpec

_LOGS = 16 * 2**20
"""TensorBoard and progress.csv of a long run: tens of bytes a scalar."""
_LEAST = 256 * 2**10
"""Without this much beside one checkpoint, a run cannot even say what it is."""


def log_dir_finding(log_dir: Path) -> Finding:
    """Try to make a directory where the run's would go; it is removed at once."""
    place = existing_parent(log_dir)
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".unilab-doctor-", dir=place))
    except OSError as error:
        return fail("log dir", f"nothing can be written in {place} ({error.strerror})", "use another --log-dir")
    made = "exists" if place == log_dir else f"would be made in {place}"
    return ok("log dir", f"{log_dir} can be written ({made})")


def disk_finding(cfg: TrainConfig, spec: EnvSpec, row_bytes: int) -> Finding:
    """Free space against the checkpoints that a run keeps and the replay that they share.

    Args:
        cfg: of the run.
        spec: of its env.
        row_bytes: bytes of one row of the ring.
    """
    total, _, free = shutil.disk_usage(existing_parent(cfg.log_dir))
    if not total:  # not a disk, such as /proc; making the run's directory will tell
        return ok("disk", f"the file system of {cfg.log_dir} does not say its size")
    state, count, rows = state_bytes(cfg, spec), checkpoints_kept(cfg), replay_rows(cfg)
    needed = count * state + rows * row_bytes + _LOGS
    saw = (
        f"up to {format_bytes(needed)} ({count} x {format_bytes(state)} of checkpoints, "
        f"{rows:,} rows of replay of {format_bytes(row_bytes)}, logs) of the {format_bytes(free)} "
        f"that are free in {cfg.log_dir}"
    )
    if free < state + _LEAST:
        return fail("disk", f"{saw}: not even one checkpoint fits", "free some space or use another --log-dir")
    if free < needed:
        return warn("disk", saw, "free some space, use another --log-dir, or lower --keep or --buffer-size")
    return ok("disk", saw)


def state_bytes(cfg: TrainConfig, spec: EnvSpec) -> int:
    """Estimate of a checkpoint without replay: weights, targets, Adam's two moments, and the policy once more."""
    critic_in = (spec.critic_dim or spec.obs_dim) + spec.action_dim
    algorithm, atoms = ALGORITHMS[cfg.algo], getattr(cfg.algo_config, "atoms", 1)
    actor = _weights(algorithm, spec.obs_dim, cfg.learner.hidden, 2 * spec.action_dim)
    critics = 2 * _weights(algorithm, critic_in, cfg.learner.critic_widths, atoms)
    targets = "tau" not in algorithm.without
    return 4 * (5 * actor + (3 + targets) * critics)  # an actor's target too, which only TD3 has


def checkpoints_kept(cfg: TrainConfig) -> int:
    """Checkpoints on disk at once, the one that is being written included."""
    made = ceil(cfg.total_steps / cfg.save_every) if cfg.save_every else 1
    return made if not cfg.keep else min(made, cfg.keep + 1)


def replay_rows(cfg: TrainConfig) -> int:
    """Rows that the checkpoints on disk need together: segments are shared, so each row lies there once."""
    return min(cfg.total_steps, cfg.replay.buffer_size + (checkpoints_kept(cfg) - 1) * cfg.save_every)


def existing_parent(path: Path) -> Path:
    """The path itself, or the nearest directory (or file) above it that exists."""
    return next((place for place in (path, *path.absolute().parents) if place.exists()), Path("/"))


def _weights(algorithm: Algorithm, inputs: int, hidden: tuple[int, ...], outputs: int) -> int:
    biases = sum(hidden) + outputs
    return inputs * hidden[0] + algorithm.inner_weights(hidden) + hidden[-1] * outputs + biases

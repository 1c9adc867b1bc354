"""Who acts: the policy of a checkpoint, or chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unilab.checkpoint import checkpoint_name, find_checkpoint, list_checkpoints, steps_of
from unilab.config import parse_count
from unilab.envs.base import Groups
from unilab.errors import ConfigError
from unilab.seeding import stream

Act = Callable[[Groups, NDArray[np.bool_]], NDArray[np.float32]]
"""Observation groups and the envs [n] whose episode has just ended, to actions [n, action_dim] in [-1, 1]."""


class RandomActions:
    """Uniform actions. Each env has a generator of its own, so that it moves alike in any company."""

    def __init__(self, action_dim: int, num_envs: int, seed: int) -> None:
        self._dim = action_dim
        self._rngs: Sequence[np.random.Generator] = [
            np.random.default_rng(stream(seed, "warmup", i)) for i in range(num_envs)
        ]

    def __call__(self, obs: Groups, ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """See ``Act``."""
        return np.stack([rng.uniform(-1.0, 1.0, self._dim) for rng in self._rngs]).astype(np.float32)


def which_checkpoint(run: str | None, checkpoint: str, log_dir: Path) -> tuple[Path, list[str]]:
    """The checkpoint that is meant.

    Args:
        run: a run directory, or "latest"; None: ``checkpoint`` is a path.
        checkpoint: "last", a number of env steps, or a path.
        log_dir: of which "latest" is the newest run.

    Returns:
        The directory, and what was passed over because it is spoilt, in words.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    if run is None:
        return find_checkpoint(Path(checkpoint), replay=False).path, []
    folder = log_dir / "latest" if run == "latest" else Path(run)
    if not folder.exists():
        hint = f"; there is no run in --log-dir {log_dir}" if run == "latest" else ""
        raise ConfigError(f"--run {run}: {folder} does not exist{hint}")
    if checkpoint == "last":
        found = find_checkpoint(folder.resolve(), replay=False)
        return found.path, [f"{path} was passed over: {reason}" for path, reason in found.skipped]
    try:
        path = folder.resolve() / "checkpoints" / checkpoint_name(parse_count(checkpoint))
    except ValueError:
        if not Path(checkpoint).exists():
            raise ConfigError(
                f"--checkpoint {checkpoint} must be last, a number of env steps, or the path of a checkpoint"
            ) from None
        raise ConfigError(f"--checkpoint {checkpoint} is a path; leave --run out") from None
    if not path.exists():
        there = ", ".join(str(steps_of(p)) for p in list_checkpoints(path.parent)) or "none"
        raise ConfigError(f"--checkpoint {checkpoint}: {folder} holds none of that many env steps; it has {there}")
    return find_checkpoint(path, replay=False).path, []

"""Who acts: a policy, or chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import Groups
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

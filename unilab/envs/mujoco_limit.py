"""The time limit of native envs: truncation, with first episodes staggered in training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_NEVER = np.iinfo(np.int64).max


class TimeLimit:
    """Cuts episodes that have run for ``limit`` steps.

    Args:
        limit: steps of an episode; None: never.
        episode_steps: [n] steps of the running episodes, counted by the caller, set to 0 here.
        stagger: cut the first episode of env i after (i + 1)/n of the limit. Envs that start together would else end
            together for ever, where nothing else ends an episode: no return for a limit's worth of steps, then n at
            once.
    """

    def __init__(self, limit: int | None, episode_steps: NDArray[np.int64], stagger: bool) -> None:
        self._limit = _NEVER if limit is None else limit
        self._steps = episode_steps
        n = len(episode_steps)
        self.limits = np.full(n, self._limit)
        """[n] limits of the running episodes."""
        self._first = self.limits.copy()
        if stagger and limit is not None:
            self._first = -(-self._limit * np.arange(1, n + 1) // n)  # rounded up: at least one step

    def restart(self, rows: NDArray[np.int64]) -> None:
        """Begin new episodes."""
        self._steps[rows] = 0
        self.limits[rows] = self._first[rows]
        self._first[rows] = self._limit

    def reached(self) -> NDArray[np.bool_]:
        """[n] episodes to cut now."""
        return self._steps >= self.limits

    def state(self) -> dict[str, NDArray[np.int64]]:
        """Limits of the running and of the next episodes, as copies; [n] each. The caller saves the step counts."""
        return {"limits": self.limits.copy(), "next_limits": self._first.copy()}

    def restore(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Continue where ``state`` was called."""
        self.limits[:] = state["limits"]
        self._first[:] = state["next_limits"]

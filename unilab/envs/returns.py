"""Discounted returns of running episodes: what rewards are scaled by.

They are followed where episodes are known, in the collector: neither an env that is reset out of turn nor a collector
that replaces another makes rewards of one episode count in the next, and it does not matter what a replay's row holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unilab.spec import ReturnStats


class DiscountedReturns:
    """G = reward + gamma G of each env, from the start of its episode; its terminal reward included.

    Args:
        num_envs: n.
        gamma: discount per env step.

    Source: the statistic of SimbaV2 (Lee et al. 2025, arXiv:2502.15280) and FlashSAC. Their published code forgets the
    past one step early, before it adds an episode's last reward, which then counts as the start of the next episode.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self._gamma = gamma
        self._returns = np.zeros(num_envs)
        self._seen: list[NDArray[np.float64]] = []

    def add(
        self, reward: NDArray[np.float32], ended: NDArray[np.bool_], skipped: NDArray[np.bool_] | None = None
    ) -> None:
        """Take one step of all envs in.

        Args:
            reward: [n], env units.
            ended: [n], envs whose episode is over with this step, however.
            skipped: [n], envs whose step counts nowhere; None: there are none.
        """
        self._returns = reward + self._gamma * self._returns
        self._seen.append(self._returns if skipped is None else self._returns[~skipped])
        if ended.any():
            self._returns = np.where(ended, 0.0, self._returns)

    def take(self) -> ReturnStats:
        """What was added since this was called last."""
        seen = np.concatenate([*self._seen, np.empty(0)])
        self._seen = []
        if not seen.size:
            return ReturnStats()
        mean = seen.mean()
        return ReturnStats(len(seen), float(mean), float(np.square(seen - mean).sum()), float(np.abs(seen).max()))

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """The running returns, as a copy; what was not taken is not in it."""
        return {"returns": self._returns.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Continue where ``state_dict`` was called."""
        self._returns = state["returns"].copy()


class NoReturns:
    """Where nothing is scaled by them."""

    def add(
        self, reward: NDArray[np.float32], ended: NDArray[np.bool_], skipped: NDArray[np.bool_] | None = None
    ) -> None:
        """Ignore the step."""

    def take(self) -> ReturnStats:
        """Of no steps."""
        return ReturnStats()

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """There is none."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """There is none."""

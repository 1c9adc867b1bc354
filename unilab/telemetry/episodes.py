"""The last episodes: what SB3 users read as ``rollout/ep_rew_mean``."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MEASURED = frozenset(
    {
        "ep_rew_mean",
        "ep_len_mean",
        "terminated_rate",
        "truncated_rate",
        "reward_per_step",
        "skipped_steps",
        "mean_reward",
        "std_reward",
        "mean_ep_length",
    }
)
"""Names under ``rollout/`` and ``eval/`` that are no env's to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finished episode."""

    reward_sum: float  # undiscounted return, env units
    length: int  # env steps
    terminated: bool  # end of the MDP
    truncated: bool  # cut off; may be set together with terminated
    metrics: Mapping[str, float] = field(default_factory=dict)  # the env's own, by name


class EpisodeWindow:
    """Means over the last ``size`` finished episodes."""

    def __init__(self, size: int = 100) -> None:
        self._episodes: deque[Episode] = deque(maxlen=size)
        self._returns: deque[float] = deque(maxlen=size)  # of these episodes: summed for each one that ends
        self._size = size
        self._best_full = -math.inf
        self.total = 0
        """Episodes ever finished."""

    def add(self, episode: Episode) -> None:
        """Take a finished episode; the oldest one leaves a full window."""
        self._episodes.append(episode)
        self._returns.append(episode.reward_sum)
        self.total += 1
        if self.total >= self._size:
            self._best_full = max(self._best_full, self._mean_reward())

    @property
    def best(self) -> float | None:
        """Highest mean return of any full window; before the first is full, the mean so far, if any.

        Windows that are not full do not compete: one lucky first episode would never be beaten.
        """
        if not self._episodes:
            return None
        return self._best_full if self.total >= self._size else self._mean_reward()

    def scalars(self) -> dict[str, float]:
        """``rollout/*`` means; empty before the first episode has ended.

        A metric is averaged over the episodes that carry it.
        """
        episodes = self._episodes
        if not episodes:
            return {}
        names = dict.fromkeys(name for episode in episodes for name in episode.metrics)
        means = {name: _mean(e.metrics[name] for e in episodes if name in e.metrics) for name in names}
        return {
            "rollout/ep_rew_mean": self._mean_reward(),
            "rollout/ep_len_mean": _mean(episode.length for episode in episodes),
            "rollout/terminated_rate": _mean(episode.terminated for episode in episodes),
            "rollout/truncated_rate": _mean(episode.truncated for episode in episodes),
        } | {f"rollout/{scalar_name(name)}": mean for name, mean in means.items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain numbers, strings, lists and dicts."""
        return {
            "total": self.total,
            "best_full": self._best_full,
            "episodes": [asdict(episode) for episode in self._episodes],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; a smaller window keeps the latest episodes."""
        self.total = state["total"]
        self._best_full = state["best_full"]
        self._episodes.clear()
        self._episodes.extend(Episode(**episode) for episode in state["episodes"])
        self._returns.clear()
        self._returns.extend(episode.reward_sum for episode in self._episodes)

    def _mean_reward(self) -> float:
        return sum(self._returns) / len(self._returns)


def scalar_name(metric: str) -> str:
    """What a metric of the env is called among the scalars: success flags as SB3 calls their mean.

    One with the name of a scalar that is measured here stands beside it as ``info_`` and its name.
    """
    if metric in ("is_success", "success"):
        return "success_rate"
    return f"info_{metric}" if metric in MEASURED else metric


def _mean(values: Iterable[float]) -> float:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers)

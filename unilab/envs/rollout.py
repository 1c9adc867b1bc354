"""Episodes out of steps: their returns while training, and an evaluation that plays exactly n of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import BatchEnv, EnvStep, Groups
from unilab.envs.finite import check_finite, check_finite_reset

EPISODE_COLUMNS = ("env", "return", "length", "terminated", "truncated")
"""First columns of an episode's row; one column per metric follows."""

_LAST_VALUE = ("is_success", "success")


@dataclass(frozen=True, slots=True)
class EpisodeResults:
    """Finished episodes, env by env and in order."""

    returns: NDArray[np.float64]  # [episodes], env units
    lengths: NDArray[np.int64]  # [episodes], steps
    metrics: dict[str, float]  # mean over the episodes that have it; NaN where none has


class EpisodeStats:
    """Accumulates the running episode of each env.

    Args:
        num_envs: envs in a step.
        metric_names: metrics to follow, as in ``EnvSpec``.
        first_index: run-wide index of the first env.
    """

    def __init__(self, num_envs: int, metric_names: tuple[str, ...], first_index: int = 0) -> None:
        self.columns = (*EPISODE_COLUMNS, *metric_names)
        self._names = metric_names
        self._index = first_index + np.arange(num_envs)
        self._takes_last = np.array([name in _LAST_VALUE for name in metric_names], np.bool_)[:, None]
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, np.int64)
        self._sum = np.zeros((len(metric_names), num_envs))
        self._count = np.zeros((len(metric_names), num_envs), np.int64)
        self._none = np.empty((0, len(self.columns)))

    def add(self, step: EnvStep) -> NDArray[np.float64]:
        """Take one step of all envs in.

        Returns:
            [k, 5 + metrics] float64, a row for each of the k episodes that ended: ``columns``. A metric is
            its mean over the episode's steps without NaN, ``is_success`` and ``success`` their last value
            that is not NaN; NaN where there is none.
        """
        self._return += step.reward
        self._length += 1
        if self._names:
            self._add_metrics(step)
        ended = np.flatnonzero(step.terminated | step.truncated)
        if not ended.size:
            return self._none
        rows = self._rows(step, ended)
        for sums in (self._return, self._length, self._sum, self._count):
            sums[..., ended] = 0
        return rows

    def state_dict(self) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        """The running episodes, as copies."""
        return {
            "return": self._return.copy(),
            "length": self._length.copy(),
            "sum": self._sum.copy(),
            "count": self._count.copy(),
        }

    def load_state_dict(self, state: dict[str, NDArray[np.float64] | NDArray[np.int64]]) -> None:
        """Continue where ``state_dict`` was called; ValueError for another number of envs or metrics."""
        mine = {"return": self._return, "length": self._length, "sum": self._sum, "count": self._count}
        for name, array in mine.items():
            if state[name].shape != array.shape:
                raise ValueError(f"episode state {name!r} has shape {state[name].shape}, need {array.shape}")
            array[...] = state[name]

    def _add_metrics(self, step: EnvStep) -> None:
        values = np.array([step.metrics[name] for name in self._names], np.float64)
        known = ~np.isnan(values)
        # A success flag is a sum of one: its last value.
        fresh = known & self._takes_last
        self._sum[fresh], self._count[fresh] = 0.0, 0
        self._sum[known] += values[known]
        self._count += known

    def _rows(self, step: EnvStep, ended: NDArray[np.int64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            metrics = self._sum[:, ended] / self._count[:, ended]  # 0 / 0 is the NaN that we promise
        return np.column_stack(
            [
                self._index[ended],
                self._return[ended],
                self._length[ended],
                step.terminated[ended],
                step.truncated[ended],
                metrics.T,
            ]
        )


def evaluate(env: BatchEnv, act: Callable[[Groups], NDArray[np.float32]], episodes: int) -> EpisodeResults:
    """Play ``episodes`` episodes.

    Each env plays its share, fixed beforehand, whatever its episodes' lengths: counting whichever ends first
    would favour short episodes. Envs that are through keep being stepped, and are not counted.

    Args:
        env: freshly made or used; it is reset.
        act: policy, observation groups of all envs to [num_envs, action_dim] in [-1, 1].
        episodes: at least 1.

    Raises:
        NonFinite: the env returned a NaN or an infinity.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1")
    left = np.full(env.num_envs, episodes // env.num_envs)
    left[: episodes % env.num_envs] += 1
    stats = EpisodeStats(env.num_envs, env.spec.metric_names)
    steps = np.zeros(env.num_envs, np.int64)
    finished: list[list[NDArray[np.float64]]] = [[] for _ in range(env.num_envs)]
    obs = env.reset()
    check_finite_reset(obs, 0, steps)
    while left.any():
        step = env.step(act(obs))
        steps += 1
        check_finite(step, 0, steps)
        for row in stats.add(step):
            i = int(row[0])
            if left[i] > 0:
                left[i] -= 1
                finished[i].append(row)
        obs = step.obs
    return _results(np.array([row for rows in finished for row in rows]), env.spec.metric_names)


def _results(rows: NDArray[np.float64], metric_names: tuple[str, ...]) -> EpisodeResults:
    metrics = {}
    for k, name in enumerate(metric_names, start=len(EPISODE_COLUMNS)):
        known = rows[~np.isnan(rows[:, k]), k]
        metrics[name] = float(known.mean()) if known.size else float("nan")
    return EpisodeResults(returns=rows[:, 1].copy(), lengths=rows[:, 2].astype(np.int64), metrics=metrics)

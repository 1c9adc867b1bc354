"""Episodes out of steps: their returns while training, and an evaluation that plays exactly n of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab.envs.bad_values import BadValues, Stop
from unilab.envs.base import BatchEnv, EnvStep, Groups
from unilab.errors import NonFinite

EPISODE_COLUMNS = ("env", "return", "length", "terminated", "truncated")
"""First columns of an episode's row; one column per metric follows."""

_LAST_VALUE = ("is_success", "success", "unstable")


@dataclass(frozen=True, slots=True)
class EpisodeResults:
    """Finished episodes, env by env and in order."""

    returns: NDArray[np.float64]  # [episodes], env units
    lengths: NDArray[np.int64]  # [episodes], steps
    metrics: dict[str, float]  # mean over the episodes that have it; NaN where none has
    cut: int  # episodes that did not end by themselves


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
            its mean over the episode's steps without NaN, ``is_success``, ``success`` and ``unstable`` their
            last value that is not NaN; NaN where there is none.
        """
        self._return += step.reward
        self._length += 1
        if self._names:
            self._add_metrics(step)
        return self.finish(step.terminated | step.truncated, step.terminated, step.truncated)

    def drop(self, which: NDArray[np.bool_]) -> None:
        """Forget the running episodes of the envs in ``which`` [n]."""
        for sums in (self._return, self._length, self._sum, self._count):
            sums[..., which] = 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[n] steps of the running episodes."""
        return self._length

    def finish(
        self, ended: NDArray[np.bool_], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Close the running episodes of the envs in ``ended`` [n]; rows as in ``add``."""
        index = np.flatnonzero(ended)
        if not index.size:
            return self._none
        rows = self._rows(index, terminated, truncated)
        self.drop(ended)
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

    def _rows(
        self, ended: NDArray[np.int64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            metrics = self._sum[:, ended] / self._count[:, ended]  # 0 / 0 is the NaN that we promise
        return np.column_stack(
            [
                self._index[ended],
                self._return[ended],
                self._length[ended],
                terminated[ended],
                truncated[ended],
                metrics.T,
            ]
        )


class RemembersEnds:
    """A ``BatchEnv`` that remembers whose episodes its last step ended: noise that repeats wants to know."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.num_envs, self.spec = env.num_envs, env.spec
        self.ended = np.zeros(env.num_envs, np.bool_)

    def reset(self) -> Groups:
        """See ``BatchEnv``."""
        self.ended = np.zeros(self.num_envs, np.bool_)
        return self._env.reset()

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        step = self._env.step(action)
        self.ended = step.terminated | step.truncated
        return step

    def close(self) -> None:
        """See ``BatchEnv``."""
        self._env.close()


def evaluate(
    env: BatchEnv,
    act: Callable[[Groups], NDArray[np.float32]],
    episodes: int,
    *,
    max_episode_steps: int = 10_000,
    round_done: Callable[[], None] = lambda: None,
    on_bad: BadValues | None = None,
    span: Callable[[str], AbstractContextManager[object]] = lambda name: nullcontext(),
) -> EpisodeResults:
    """Play ``episodes`` episodes.

    Each env plays its share, fixed beforehand, whatever its episodes' lengths: counting whichever ends first
    would favour short episodes. Envs that are through keep being stepped, and are not counted.

    Args:
        env: freshly made or used; it is reset.
        act: policy, observation groups of all envs to [num_envs, action_dim] in [-1, 1].
        episodes: at least 1.
        max_episode_steps: an episode that is this long is counted as it stands: an env may never end one.
        round_done: called after each step of all envs.
        span: times its body, by name.
        on_bad: the rule for values that are not finite; None: they raise. A skipped episode is played again.

    Raises:
        NonFinite: the env returned a NaN or an infinity, or did so in more episodes than there are to play.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1")
    left = np.full(env.num_envs, episodes // env.num_envs)
    left[: episodes % env.num_envs] += 1
    stats = EpisodeStats(env.num_envs, env.spec.metric_names)
    steps = np.zeros(env.num_envs, np.int64)
    finished: list[list[NDArray[np.float64]]] = [[] for _ in range(env.num_envs)]
    nobody = np.zeros(env.num_envs, np.bool_)
    cut = 0
    rule, skips = on_bad or Stop(0), 0
    obs = rule.check_reset(env.reset(), steps)
    while left.any():
        with span("act"):
            action = act(obs)
        with span("env_step"):
            step = env.step(action)
        steps += 1
        skipped = rule.check(step, steps)
        ended = stats.add(step)
        if skipped is not None:
            stats.drop(skipped)
            skips += int(skipped.sum())
            if skips > episodes:
                raise NonFinite(f"{skips} episodes had a NaN or an infinity before {episodes} were played without")
        endless = stats.finish((stats.lengths >= max_episode_steps) & (left > 0), nobody, nobody)
        cut += len(endless)
        for row in (*ended, *endless):
            i = int(row[0])
            if left[i] > 0:
                left[i] -= 1
                finished[i].append(row)
        obs = step.obs
        round_done()
    rows = np.array([row for rows in finished for row in rows])
    return _results(rows, env.spec.metric_names, cut)


def _results(rows: NDArray[np.float64], metric_names: tuple[str, ...], cut: int) -> EpisodeResults:
    metrics = {}
    for k, name in enumerate(metric_names, start=len(EPISODE_COLUMNS)):
        known = rows[~np.isnan(rows[:, k]), k]
        metrics[name] = float(known.mean()) if known.size else float("nan")
    return EpisodeResults(rows[:, 1].copy(), rows[:, 2].astype(np.int64), metrics, cut)

"""Gymnasium envs in one Python loop: the true successor is in hand, and an ended env is reset at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.envs.finite import to_float32
from unilab.envs.gymnasium_info import MetricReader, scalar
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.spec import EnvSpec

_PLAIN = frozenset((float, int, bool, np.float64, np.float32))


class SyncEnv:
    """``BatchEnv`` over ``gym.Env`` objects.

    Args:
        envs: the envs, which this object owns from now on.
        layout: their observations.
        scale: their actions.
        spec: what they look like; its metric names are read from the infos.
        seeds: one for the first reset of each env; later resets get None.
        first_index: run-wide index of the first env, for messages.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]],
        layout: ObsLayout,
        scale: ActionScale,
        spec: EnvSpec,
        *,
        seeds: Sequence[int],
        first_index: int = 0,
    ) -> None:
        self.num_envs = len(envs)
        self.spec = spec
        self._envs = list(envs)
        self._layout = layout
        self._scale = scale
        self._metrics = MetricReader(spec.metric_names)
        self._seeds: list[int | None] = list(seeds)
        self._first_index = first_index
        self._steps = 0

    @property
    def envs(self) -> Sequence[gym.Env[Any, Any]]:
        """The envs themselves, for whoever wants to look at them; stepping one of them is not seen here."""
        return self._envs

    def reset(self) -> Groups:
        """See ``BatchEnv``."""
        seeds, self._seeds = self._seeds, [None] * self.num_envs
        rows = self._layout.empty(self.num_envs)
        for i, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            try:
                obs, _ = env.reset(seed=seed)
                self._layout.write(rows[i], obs)
            except Exception as error:
                error.add_note(f"env index {self._first_index + i}, reset after step {self._steps}")
                raise
        return self._layout.groups(rows)

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        self._steps += 1
        n = self.num_envs
        actions = self._scale(action, self._first_index, self._steps)
        rows, reset_rows = self._layout.empty(n), self._layout.empty(n)
        metrics = np.empty((n, len(self.spec.metric_names)))
        reward = np.empty(n)
        terminated, truncated = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        ended: list[int] = []
        write, read = self._layout.write, self._metrics.read
        for i, env in enumerate(self._envs):
            try:
                obs, env_reward, end, cut, info = env.step(actions[i, ...])
                # Everything is copied before the reset: an env may hand out one array and keep writing to it.
                write(rows[i], obs)
                reward[i] = env_reward if type(env_reward) in _PLAIN else scalar("reward", env_reward)
                read(metrics[i], info)
                if end or cut:
                    terminated[i], truncated[i] = bool(end), bool(cut)
                    ended.append(i)
                    write(reset_rows[i], env.reset()[0])
            except Exception as error:
                error.add_note(f"env index {self._first_index + i}, step {self._steps}")
                raise
        return self._result(rows, reset_rows, ended, reward, terminated, truncated, metrics)

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """See ``ResetsSome``."""
        rows = np.zeros_like(self._layout.empty(self.num_envs))
        for i in np.flatnonzero(which):
            try:
                self._layout.write(rows[i], self._envs[i].reset()[0])
            except Exception as error:
                error.add_note(f"env index {self._first_index + int(i)}, reset after step {self._steps}")
                raise
        return self._layout.groups(rows)

    def _result(
        self,
        rows: NDArray[Any],
        reset_rows: NDArray[Any],
        ended: list[int],
        reward: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        metrics: NDArray[np.float64],
    ) -> EnvStep:
        next_obs = self._layout.groups(rows)
        obs = {group: values.copy() for group, values in next_obs.items()}
        if ended:
            # Only the rows of ended envs were written; the cast must not see the others.
            rows = rows.copy()
            rows[ended] = reset_rows[ended]
            obs = self._layout.groups(rows)
        return EnvStep(
            obs=obs,
            reward=to_float32(reward),
            terminated=terminated,
            truncated=truncated,
            next_obs=next_obs,
            metrics=self._metrics.columns(metrics),
        )

    def close(self) -> None:
        """Close every env, also when one of them raises; may be called twice."""
        envs, self._envs = self._envs, []
        with ExitStack() as stack:
            for env in envs:
                stack.callback(env.close)

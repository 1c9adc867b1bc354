"""The native backend's env: n copies of a task over batched MuJoCo, with no Python per env in a step.

The order of a step is in ``tasks/base.py``. What is added here is the contract of ``envs/base.py``:

- Resets draw from the env's own generator, seeded as Gymnasium seeds its envs, in the same order: with the same seeds
  both backends give the same transitions.
- The time limit is truncation. In training the first episodes are staggered: env i of n is first cut after
  (i + 1)/n of the limit, so that episodes end, and returns arrive, all along instead of all at once.
- A simulation that blows up is put back to the model's default state by the engine, with finite numbers (see
  ``Sim.unstable``). That step ends its episode as terminated with the metric ``unstable`` 1. Its row says that nothing
  happened: the successor is the state acted in, the reward 0, the other metrics NaN. The state that the engine made up
  appears in no row, and there are as many rows as env steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.envs.finite import to_float32
from unilab.envs.mujoco_limit import TimeLimit
from unilab.envs.mujoco_sim import Sim
from unilab.envs.mujoco_spec import UNSTABLE, action_scale
from unilab.envs.tasks.base import Task
from unilab.spec import EnvSpec

ALL = slice(None)


class MujocoBatchEnv:
    """``BatchEnv`` over one native task.

    Args:
        task: what is simulated.
        spec: what it looks like, from ``task_spec``.
        seeds: one per env, of its generator.
        first_index: run-wide index of the first env.
        threads: that step the simulations; the results do not depend on it.
        stagger: whether first episodes are cut short.
    """

    def __init__(
        self,
        task: Task,
        spec: EnvSpec,
        *,
        seeds: Sequence[int],
        first_index: int = 0,
        threads: int = 1,
        stagger: bool = False,
    ) -> None:
        self.num_envs = len(seeds)
        self.spec = spec
        self.task = task
        self._first_index = first_index
        rngs = [np.random.default_rng(seed) for seed in seeds]  # as gymnasium's np_random
        self.sim = Sim(task.load(), self.num_envs, threads=threads, fields=task.fields, rngs=rngs)
        self._scale = action_scale(spec.env_id, task, self.sim)
        self._limit = TimeLimit(spec.max_episode_steps, self.sim.episode_steps, stagger)
        self._names = [name for name in spec.metric_names if name != UNSTABLE]
        self._steps = 0
        self._obs: Groups = {}  # acted on next
        task.begin(self.sim)

    def reset(self) -> Groups:
        """See ``BatchEnv``."""
        self._begin_episodes(np.arange(self.num_envs))
        self._obs = self._float32(self.task.observe(self.sim, ALL))
        return _copies(self._obs)

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        task, sim = self.task, self.sim
        self._steps += 1
        actions = self._scale(action, self._first_index, self._steps)
        try:
            before = task.before(sim)
            task.advance(sim, actions)
            sim.episode_steps += 1
            outcome = task.outcome(sim, actions, before)
            task.update(sim)
            groups = task.observe(sim, ALL)
        except Exception as error:
            self._add_note(error)
            raise
        # Copies: a task may hand out arrays that it goes on writing to.
        with np.errstate(over="ignore"):  # as ``to_float32``, once for all
            next_obs = {name: np.array(rows, np.float32) for name, rows in groups.items()}
            reward = np.array(outcome.reward, np.float32)
            metrics = {name: np.array(outcome.metrics[name], np.float32) for name in self._names}
        terminated, truncated = np.array(outcome.terminated, np.bool_), self._limit.reached()
        unstable = sim.unstable()
        if unstable.any():
            terminated |= unstable
            reward[unstable] = 0
            for name, rows in next_obs.items():
                rows[unstable] = self._obs[name][unstable]
            for values in metrics.values():
                values[unstable] = np.nan
        metrics[UNSTABLE] = unstable.astype(np.float32)

        obs = _copies(next_obs)
        ended = (terminated | truncated).nonzero()[0]
        if ended.size:
            self._begin_episodes(ended)
            for group, rows in self._float32(task.observe(sim, ended)).items():
                obs[group][ended] = rows
        self._obs = _copies(obs)
        return EnvStep(obs, reward, terminated, truncated, next_obs, metrics)

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """See ``ResetsSome``."""
        rows = np.flatnonzero(which)
        self._begin_episodes(rows)
        for group, fresh in self._float32(self.task.observe(self.sim, rows)).items():
            self._obs[group][rows] = fresh
        return _copies(self._obs)

    def close(self) -> None:
        """See ``BatchEnv``; memory goes with the object."""

    def state(self) -> dict[str, NDArray[Any]]:
        """See ``SavesState``."""
        obs = {f"obs.{name}": rows.copy() for name, rows in self._obs.items()}
        return self.sim.state() | self._limit.state() | obs | {"steps": np.array(self._steps)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Groups:
        """See ``SavesState``."""
        self.sim.restore(state)
        self._limit.restore(state)
        self._steps = int(state["steps"])
        self._obs = {name.removeprefix("obs."): state[name].copy() for name in state if name.startswith("obs.")}
        return _copies(self._obs)

    def _begin_episodes(self, rows: NDArray[np.int64]) -> None:
        self.sim.default(rows)
        try:
            for i in rows:
                self.task.reset(self.sim, int(i), self.sim.rngs[i])
            self.sim.forward(rows)
        except Exception as error:
            self._add_note(error)
            raise
        self._limit.restart(rows)

    def _float32(self, groups: Mapping[str, NDArray[Any]]) -> Groups:
        return {name: to_float32(np.array(rows)) for name, rows in groups.items()}

    def _add_note(self, error: Exception) -> None:
        last = self._first_index + self.num_envs - 1
        error.add_note(f"one of env indices {self._first_index} to {last}, step {self._steps}")


def _copies(groups: Groups) -> Groups:
    return {name: rows.copy() for name, rows in groups.items()}

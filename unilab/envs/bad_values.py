"""What happens when an env returns a NaN or an infinity (docs/design.md, contract 12): ``--on-nan stop`` or ``skip``.

Skip means: the transition is not stored, the episode that it belongs to is counted nowhere, the env begins a new one.
A policy's actions, losses and weights are not the env's: when they are not finite, the learner diverged, and the run
ends whatever is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import BatchEnv, EnvStep, Groups, ResetsSome
from unilab.envs.finite import bad_envs, bad_rows, check_finite, check_finite_reset
from unilab.errors import EnvError, NonFinite

OnNan = Literal["stop", "skip"]

_RESETS = 10
"""Resets of one env in a row before it is given up."""

_TOLD = 5
"""Bad values that are told by name; further ones are only counted."""


class BadValues(Protocol):
    """The rule for one collector, or one evaluation."""

    def check_reset(self, obs: Groups, steps: NDArray[np.int64]) -> Groups:
        """The first observations, all finite.

        Args:
            obs: what ``BatchEnv.reset`` returned.
            steps: [n] steps of each env before it.

        Raises:
            NonFinite: names the value and its place.
        """

    def check(self, step: EnvStep, steps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Look at a step.

        Args:
            step: what ``BatchEnv.step`` returned; ``obs``, and reward, flags and metrics of skipped envs, are
                changed in place: afterwards the policy can act on ``obs``, and a skipped env has not ended.
            steps: [n] number of this step for each env.

        Returns:
            [n] the envs whose transition must not be stored; None where all are fine.

        Raises:
            NonFinite: names the value and its place.
        """


def make_rule(on_nan: OnNan, env: BatchEnv, first_index: int, say: Callable[[str], None]) -> BadValues:
    """The rule for an env.

    Args:
        on_nan: which.
        env: the envs that it is for.
        first_index: run-wide index of the first of them.
        say: told of what is skipped, a few times.

    Raises:
        EnvError: skip, and the env cannot reset some of its envs.
    """
    if on_nan == "stop":
        return Stop(first_index)
    if not isinstance(env, ResetsSome):
        raise EnvError(
            f"{env.spec.env_id} cannot reset one of its envs alone, which on_nan=skip needs; use on_nan=stop"
        )
    return Skip(env, first_index, say)


class Stop:
    """The first bad value ends the run."""

    def __init__(self, first_index: int) -> None:
        self._first = first_index

    def check_reset(self, obs: Groups, steps: NDArray[np.int64]) -> Groups:
        """See ``BadValues``."""
        check_finite_reset(obs, self._first, steps)
        return obs

    def check(self, step: EnvStep, steps: NDArray[np.int64]) -> None:
        """See ``BadValues``."""
        check_finite(step, self._first, steps)


class Skip:
    """The episode with a bad value is dropped, and the env reset."""

    def __init__(self, env: ResetsSome, first_index: int, say: Callable[[str], None]) -> None:
        self._env = env
        self._first = first_index
        self._say = say
        self._told = 0

    def check_reset(self, obs: Groups, steps: NDArray[np.int64]) -> Groups:
        """See ``BadValues``; a bad first observation is drawn again, a few times."""
        for _ in range(_RESETS):
            try:
                check_finite_reset(obs, self._first, steps)
                return obs
            except NonFinite as error:
                self._tell(f"{error}; the env is reset again")
                bad = bad_envs(obs)
                fresh = self._env.reset_envs(bad)
                obs = {name: np.where(bad[:, None], fresh[name], rows) for name, rows in obs.items()}
        check_finite_reset(obs, self._first, steps)
        return obs

    def check(self, step: EnvStep, steps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """See ``BadValues``."""
        try:
            check_finite(step, self._first, steps)
            return None
        except NonFinite as error:
            bad = bad_rows(step)
            if not bad.any():  # only a reset observation
                step.obs = self.check_reset(step.obs, steps)
                return None
            self._tell(f"{error}; this episode is dropped, and the env reset")
        running = bad & ~(step.terminated | step.truncated)  # the others are reset already
        if running.any():
            fresh = self._env.reset_envs(running)
            step.obs = {name: np.where(running[:, None], fresh[name], rows) for name, rows in step.obs.items()}
        step.obs = self.check_reset(step.obs, steps)
        step.reward[bad] = 0.0  # of no row: only so that sums over the envs stay sums
        step.terminated[bad] = step.truncated[bad] = False
        for values in step.metrics.values():
            values[bad] = np.nan
        return bad

    def _tell(self, what: str) -> None:
        self._told += 1
        if self._told <= _TOLD:
            self._say(what)
        if self._told == _TOLD:
            self._say("further ones are only counted, in rollout/skipped_steps")

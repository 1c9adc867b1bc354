"""n-step returns: a row stands for up to ``n_step`` env steps of one env, summed up before it is written.

The window of the env step at time t holds it and the steps after it, ``n_step`` in all, fewer where the episode ends
before: it never crosses an end. With m steps in it, its row is

    obs_t, action_t, sum over k < m of gamma^k reward_{t+k}, next_obs and flags of its last step, m,

so what follows it counts gamma^m, unless it is terminated. A time limit closes a window like any end; its row
bootstraps from the true successor. The sum is taken in float64, in the order of time, and rounded once.

Rows are late, all by the same time: in each round the window that began ``n_step - 1`` rounds before is complete, in
every env, however its episodes end; its row is written, in the order of the env steps. So a round gives one row per
env, as without n-step returns, and rows stay env steps: only the first ``n_step - 1`` rounds give none.

Source: Sutton and Barto 2018, section 7.1; Pardo et al. 2018, arXiv:1712.00378 (time limits).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import Ring
from unilab.replay.transition import Transition, write_step

_OF_THE_LAST = ("next_obs", "terminated", "truncated", "next_critic_obs")
"""Columns that a row takes from the last step of its window."""


class Rows(Protocol):
    """What turns env steps into rows of the ring."""

    @property
    def missing(self) -> int:
        """Rounds that give no rows before the next one that does."""

    @property
    def can_repeat(self) -> bool:
        """Whether the next env steps have others before them, whose rows could stand in for theirs."""

    def append(
        self,
        obs: Mapping[str, NDArray[np.float32]],
        action: NDArray[np.float32],
        step: Transition,
        policy_version: int,
        repeat: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take a round in; see ``Ring.append``. Nothing of the steps in ``repeat`` gets into any row."""

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """The env steps whose rows are not written yet, as copies."""

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]], *, continues: bool) -> None:
        """Go on where ``state_dict`` was called.

        Args:
            state: from there.
            continues: whether the envs go on with the episodes that they were in; if not, open windows are closed.

        Raises:
            ValueError: of another ``n_step`` or number of envs.
        """


class OneStep:
    """Each env step is a row, at once."""

    missing = 0

    def __init__(self, ring: Ring, num_envs: int) -> None:
        self._ring, self._num_envs = ring, num_envs
        self.append = ring.append

    @property
    def can_repeat(self) -> bool:
        """See ``Rows``."""
        return _holds(self._ring, self._num_envs)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Nothing is under way."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]], *, continues: bool) -> None:
        """Nothing was under way."""


class NStep:
    """See the module's docstring.

    Args:
        ring: receives the rows; its layout says ``n_step``, here 2 or more.
        num_envs: rows of a round.
        gamma: discount per env step.
    """

    def __init__(self, ring: Ring, num_envs: int, gamma: float) -> None:
        n_step, self._ring = ring.layout.n_step, ring
        self._columns = ring.layout.columns
        self._discounts = gamma ** np.arange(n_step)  # float64
        self._envs = np.arange(num_envs)
        # Round t lies in place t % n_step. Each array is [n_step, num_envs, ...].
        self._rows = np.zeros((n_step, num_envs, ring.layout.width), np.float32)
        self._versions = np.zeros((n_step, num_envs), np.int64)
        self._last = np.zeros((n_step, num_envs), np.bool_)  # no window goes on behind this step
        self._void = np.zeros((n_step, num_envs), np.bool_)  # this step is of no row
        self._rounds = 0  # taken in, those of a saved state from n_step - 1 on

    @property
    def missing(self) -> int:
        """See ``Rows``."""
        return max(0, len(self._rows) - 1 - self._rounds)

    @property
    def can_repeat(self) -> bool:
        """See ``Rows``."""
        return self._rounds > 0 or _holds(self._ring, len(self._envs))

    def append(
        self,
        obs: Mapping[str, NDArray[np.float32]],
        action: NDArray[np.float32],
        step: Transition,
        policy_version: int,
        repeat: NDArray[np.bool_] | None = None,
    ) -> None:
        """See ``Rows``."""
        n_step = len(self._rows)
        place = self._rounds % n_step
        write_step(self._rows[place], self._columns, obs, action, step, slice(None))
        self._versions[place] = policy_version
        self._last[place] = step.terminated | step.truncated
        self._void[place] = False
        if repeat is not None:
            # What was before it is true, and bootstraps from the observation that this step began with.
            self._last[place - 1] |= repeat
            self._last[place] |= repeat
            self._void[place] = repeat
        self._rounds += 1
        if self._rounds >= n_step:
            self._write((place + 1) % n_step)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """See ``Rows``; [rounds, num_envs, ...], the oldest of at most ``n_step - 1`` rounds first."""
        kept = self._under_way()
        return {name: array[kept] for name, array in self._arrays().items()}

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]], *, continues: bool) -> None:
        """See ``Rows``."""
        self._rounds = len(state["rows"])
        for name, array in self._arrays().items():
            if self._rounds >= len(array) or state[name].shape[1:] != array.shape[1:]:
                raise ValueError(f"n-step state {name!r} has shape {state[name].shape}, this run's is {array.shape}")
            array[: self._rounds] = state[name]
        if not continues and self._rounds:
            self._last[self._rounds - 1] = True

    def _write(self, start: int) -> None:
        """Write the rows of the windows that begin in place ``start``; all of them are complete."""
        n_step, rows, reward = len(self._rows), self._rows[start], self._columns["reward"].start
        total = rows[:, reward].astype(np.float64)
        end, open_ = np.full(len(rows), start), ~self._last[start]
        for k in range(1, n_step):
            place = (start + k) % n_step
            total[open_] += self._discounts[k] * self._rows[place, open_, reward]
            end[open_] = place
            open_ &= ~self._last[place]
        for name in _OF_THE_LAST:
            if name in self._columns:
                rows[:, self._columns[name]] = self._rows[end, self._envs, self._columns[name]]
        rows[:, reward] = total
        rows[:, self._columns["steps"].start] = (end - start) % n_step + 1
        self._ring.append_rows(rows, self._versions[start], self._void[start])

    def _under_way(self) -> NDArray[np.int64]:
        """Places of the rounds whose rows are not written yet, in order."""
        n_step = len(self._rows)
        return np.arange(max(0, self._rounds - n_step + 1), self._rounds) % n_step

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {"rows": self._rows, "versions": self._versions, "last": self._last, "void": self._void}


def make_rows(ring: Ring, num_envs: int, gamma: float) -> Rows:
    """By the ring's layout."""
    return OneStep(ring, num_envs) if ring.layout.n_step == 1 else NStep(ring, num_envs, gamma)


def _holds(ring: Ring, count: int) -> bool:
    """Whether the ring has the last ``count`` rows."""
    return ring.cursor - ring.oldest >= count

"""The env contract (docs/design.md, contract 1).

``next_obs`` is always the true successor under the action, the terminal observation at an episode's end;
``obs`` is what the policy acts on next, the reset observation there. Adapters absorb every autoreset flavour,
so that the collector has no branch. ``terminated`` and ``truncated`` stay separate for ever.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unilab.spec import EnvSpec

Groups = dict[str, NDArray[np.float32]]
"""Observation groups: "obs" [n, obs_dim] always, "critic" [n, critic_dim] where the env has it."""


@dataclass(slots=True)
class EnvStep:
    """Result of one step of n envs. The arrays are the caller's: no later step writes into them."""

    obs: Groups  # what the policy acts on next
    reward: NDArray[np.float32]  # [n], env units
    terminated: NDArray[np.bool_]  # [n]
    truncated: NDArray[np.bool_]  # [n]
    next_obs: Groups  # the true successor under the action
    metrics: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # named per-env floats, [n] each


class BatchEnv(Protocol):
    """n envs stepped together."""

    num_envs: int
    spec: EnvSpec

    def reset(self) -> Groups:
        """First observations. Each env is seeded with its own seed here, and only here."""

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """Step all envs.

        Args:
            action: [num_envs, action_dim] float32 in [-1, 1]; the adapter scales it to the env's bounds.

        Raises:
            Exception: whatever the env raised, with a note that names the env's index.
        """

    def close(self) -> None:
        """Release the envs; may be called twice."""


@runtime_checkable
class SavesState(Protocol):
    """What a ``BatchEnv`` may offer besides: its whole state as arrays, so that a run can be continued exactly.

    Call both between two steps. An env with the same config continues from a restored state with the same bits as the
    env that it was taken from, whatever seed it was made with and whatever it did before.
    """

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the next steps depend on: simulation, generators, counters, the observations to act on.

        Copies: float64, float32, int64 or bool arrays.
        """

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Groups:
        """Continue where ``state`` was called, in place of ``reset``; returns the observations to act on.

        Raises:
            EnvError: the state is of another env, or of another number of envs.
        """


@runtime_checkable
class ResetsSome(Protocol):
    """What a ``BatchEnv`` may offer besides: new episodes in some envs, in the middle of those that they were in."""

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """Begin an episode in the envs of ``which`` [n].

        Returns:
            Groups of all n envs, of which only the rows of these are meant.
        """


class _Closable(Protocol):
    def close(self) -> None: ...


E = TypeVar("E", bound=_Closable)


@contextmanager
def closing_env(env: E) -> Iterator[E]:
    """Close an env at the end; one that cannot be closed is a warning: what it was needed for is done."""
    try:
        yield env
    finally:
        try:
            env.close()
        except Exception as error:
            warnings.warn(f"the env could not be closed: {type(error).__name__}: {error}", stacklevel=3)

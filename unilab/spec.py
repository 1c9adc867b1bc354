"""Shapes and records that every layer may know: what an env looks like, what an update gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unilab.mirror import Mirror

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """What the learner must know of an env; small and picklable.

    Actions cross every border inside unilab in [-1, 1] per dimension; only the env adapter knows the
    env's own units, in which ``action_low`` and ``action_high`` are given.
    """

    env_id: str
    obs_dim: int
    action_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    critic_dim: int = 0  # width of the privileged `critic` group; 0: the env has none
    obs_keys: tuple[str, ...] = ()  # Dict observations: keys of the `obs` group in network order
    critic_keys: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()  # names in EnvStep.metrics, the same in every step
    max_episode_steps: int | None = None
    mirror: Mirror | None = None  # left/right; None: the env has not declared one

    @property
    def privileged_dim(self) -> int:
        """Width of what only critics see: the columns of the `critic` group behind as many as `obs` has."""
        return max(0, self.critic_dim - self.obs_dim)

    def spaces(self) -> dict[str, int | list[float] | list[str]]:
        """What the numbers of a row stand for, as JSON values; actions in a row are shares of these bounds."""
        return {
            "obs_dim": self.obs_dim,
            "critic_dim": self.critic_dim,
            "action_dim": self.action_dim,
            "action_low": list(self.action_low),
            "action_high": list(self.action_high),
            "obs_keys": list(self.obs_keys),
            "critic_keys": list(self.critic_keys),
        }


@dataclass(frozen=True, slots=True)
class ReturnStats:
    """Discounted returns of a number of env steps, env units: of each, what its episode has brought up to there."""

    count: int = 0
    mean: float = 0.0
    m2: float = 0.0  # sum of squared deviations from the mean
    peak: float = 0.0  # largest magnitude


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Rows of one update, as columns; B rows, on the learner's device, without gradient.

    ``critic_obs`` and ``next_critic_obs`` are the privileged group, or the same tensors as ``obs`` and
    ``next_obs`` where the env has none. The flags are columns like the others, and truncation is read by few: an update
    rule compares what it needs.
    """

    obs: Tensor  # [B, obs_dim] float32
    action: Tensor  # [B, action_dim] float32, normalised to [-1, 1]
    reward: Tensor  # [B] float32, env units; discounted sum over the row's env steps
    next_obs: Tensor  # [B, obs_dim] float32, the true successor of the row's last env step
    terminated: Tensor  # [B] float32, not 0 at the end of the MDP: never bootstrap
    truncated: Tensor  # [B] float32, not 0 where cut off: bootstrap unless terminated too
    critic_obs: Tensor  # [B, critic_dim or obs_dim] float32
    next_critic_obs: Tensor  # [B, critic_dim or obs_dim] float32
    steps: Tensor | None = None  # [B] float32, env steps that a row stands for, 1 or more; None: one each
    weights: Tensor | None = None  # [B] float32, what a row counts in the critics' loss; None: 1 each

    def discount(self, gamma: float) -> Tensor | float:
        """What the value of the successor counts: gamma^m where a row stands for m env steps, [B] float32 or a number.

        Args:
            gamma: discount per env step, the one that the rows were summed with.
        """
        return gamma if self.steps is None else gamma**self.steps

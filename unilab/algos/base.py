"""What the loop asks of an algorithm: a learner that updates, a policy that acts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unilab.algos.curve import Shape
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor
from unilab.spec import EnvSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """Hyperparameters that every algorithm here has."""

    gamma: float = 0.99
    """Discount per env step, in [0, 1]."""
    n_step: int = 1
    """Env steps whose rewards a target sums up before it bootstraps, fewer at an episode's end."""
    tau: float = 0.005
    """Share of the online networks mixed into the targets at each update (TD3: actor update), in (0, 1]."""
    learning_rate: float = 3e-4
    """Adam step size of actor, critics and temperature."""
    lr_schedule: Shape = "constant"
    """How the learning rate falls over the updates of the run."""
    lr_final: float = 0.0
    """Learning rate at the end of the run as a share of the first, where it falls."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay of Adam's first and second moment."""
    weight_decay: float = 0.0
    """Decoupled weight decay of actor and critics (AdamW), per unit of learning rate."""
    max_grad_norm: float = 0.0
    """Longest gradient of actor and of critics, longer ones are scaled down; 0: any."""
    policy_delay: int = 1
    """Critic updates per actor update, counted over the whole run."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics."""
    critic_hidden: tuple[int, ...] = ()
    """Widths of the critics' hidden layers where they are others than the actor's."""
    privileged_encoder: tuple[int, ...] = ()
    """Widths of an encoder of what only the critics see, the last one of the latent that the actor gets beside obs."""
    norm_obs: bool = False
    """Normalise observations by running mean and standard deviation."""
    norm_reward: bool = False
    """Scale rewards by the running standard deviation of discounted returns, so that those stay within 5."""
    symmetry: bool = False
    """Mirror half of the rows of each update, left to right; for envs that declare how."""

    def __post_init__(self) -> None:
        _require("n_step", self.n_step, self.n_step >= 1, "1 or more")
        _require("gamma", self.gamma, 0.0 <= self.gamma <= 1.0, "within [0, 1]")
        _require("tau", self.tau, 0.0 < self.tau <= 1.0, "above 0 and at most 1")
        _require("learning_rate", self.learning_rate, 0.0 < self.learning_rate < math.inf, "above 0")
        _require("lr_final", self.lr_final, 0.0 <= self.lr_final <= 1.0, "within [0, 1]")
        useless = self.lr_schedule == "constant" and self.lr_final != 0.0
        _require("lr_final", self.lr_final, not useless, "left alone with lr_schedule=constant, where it has no effect")
        _require("adam_betas", self.adam_betas, all(0.0 <= b < 1.0 for b in self.adam_betas), "two numbers in [0, 1)")
        _require("weight_decay", self.weight_decay, 0.0 <= self.weight_decay < math.inf, "0 or more")
        _require("max_grad_norm", self.max_grad_norm, 0.0 <= self.max_grad_norm < math.inf, "0 or more")
        _require("policy_delay", self.policy_delay, self.policy_delay >= 1, "1 or more")
        good_widths = len(self.hidden) > 0 and all(width >= 1 for width in self.hidden)
        _require("hidden", self.hidden, good_widths, "one positive width a layer, for example (256, 256)")
        good_widths = all(width >= 1 for width in self.critic_hidden)
        _require("critic_hidden", self.critic_hidden, good_widths, "one positive width a layer, or left alone")

        encoder = self.privileged_encoder
        good_widths = all(width >= 1 for width in encoder)
        _require("privileged_encoder", encoder, good_widths, "one positive width a layer, or left alone")

    @property
    def critic_widths(self) -> tuple[int, ...]:
        """Widths of the critics' hidden layers."""
        return self.critic_hidden or self.hidden


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"learner.{name}={value!r} cannot work; it must be {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """All that a worker needs to rebuild the policy; small and picklable."""

    algo: str
    env: EnvSpec
    learner: LearnerConfig
    algo_config: Any  # the algorithm's own config dataclass
    progress: float = 0.0  # share of the run that is done; see ``Policy.at``


class Policy(Protocol):
    """What a collector acts with: a CPU copy of the published networks plus its own exploration state."""

    module: NormalizedActor
    """Everything that is published: actor and observation normaliser, parameters and buffers. The
    learner's ``policy_module`` has the same names, shapes and dtypes. Exploration state is not in it."""

    def explore(self, obs: Mapping[str, NDArray[np.float32]], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Actions with exploration.

        Args:
            obs: all observation groups, [n, dim] float32 each.
            ended: [n] bool, envs whose episode ended in the step before (noise that repeats is redrawn).

        Returns:
            [n, action_dim] float32 in [-1, 1].
        """

    def at(self, progress: float) -> None:
        """Explore from now on as when the share ``progress`` of the run's ticks is done; a function of it alone."""

    def act(self, obs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Deterministic actions, [n, action_dim] float32 in [-1, 1]."""

    def explore_state(self) -> dict[str, Tensor]:
        """Copies of the exploration state that belongs to this collector, generator included, on CPU."""

    def load_explore_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``explore_state``; the actions that follow are the same bits."""

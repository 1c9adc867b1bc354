"""FastSAC: soft actor-critic with categorical critics, for many envs and large batches.

Each critic learns the distribution of its own target, there is no minimum over the two, and the actor ascends the
mean of both. The entropy of the next action is part of the target's reward. Order within an update:

1. critics, with the temperature as the last update left it;
2. temperature, on the next actions of step 1;
3. actor, against the critics of step 1 (every ``policy_delay`` updates);
4. target critics.

Source: Seo et al. 2025, arXiv:2512.01996.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unilab.algos.adam import make_adam
from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.categorical import (
    Support,
    at_the_ends,
    check_support,
    cross_entropy,
    divergences,
    expectation,
    project,
    soft_reward,
)
from unilab.algos.inputs import Inputs, make_inputs
from unilab.algos.noise import FreshNoise, network_generator
from unilab.algos.policies import GaussianPolicy
from unilab.algos.policy_module import make_policy_module
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import polyak, weighted
from unilab.algos.temperature import check_temperature, make_temperature
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor
from unilab.nets.categorical_critic import CategoricalCritic
from unilab.nets.distributions import squashed_sample
from unilab.nets.ranged_actor import RangedGaussianActor
from unilab.spec import EnvSpec, Minibatch


@dataclass(frozen=True, slots=True, kw_only=True)
class FastSACConfig:
    """What only FastSAC has."""

    ent_coef: float | str = "auto_0.001"
    """Temperature: ``auto`` is learned from 1, ``auto_0.1`` learned from 0.1, a number is fixed."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy in nats that a learned temperature keeps; ``auto`` is 0, whatever the number of action dimensions."""
    log_std_min: float = -5.0
    """Lowest log standard deviation of an action before it is squashed."""
    log_std_max: float = 0.0
    """Highest one."""
    atoms: int = 101
    """Values that a critic's distribution has."""
    v_min: float = -10.0
    """Lowest return, entropy included, that a critic can expect, in scaled rewards with norm_reward."""
    v_max: float = 10.0
    """Highest one."""

    def __post_init__(self) -> None:
        check_temperature("fastsac", self.ent_coef, self.target_entropy)
        if not -math.inf < self.log_std_min < self.log_std_max < math.inf:
            raise ConfigError(
                f"fastsac.log_std_min={self.log_std_min!r} must be below log_std_max={self.log_std_max!r}"
            )
        check_support("fastsac", self.v_min, self.v_max, self.atoms)


class FastSAC:
    """The update rule; see the module's docstring for the order of an update.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: FastSAC's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 2

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: FastSACConfig,
        *,
        seed: int,
        device: torch.device,
        rate: LearningRate,
    ) -> None:
        init = network_generator(seed)
        module = _make_module(env, cfg, algo, init)
        self.policy_module = module.to(device)
        self._actor = module.actor
        self.inputs = make_inputs(env, module, cfg, device=device)
        self._support = Support(algo.v_min, algo.v_max, algo.atoms)
        self._critic = CategoricalCritic(
            self.inputs.critic_dim, env.action_dim, cfg.critic_widths, algo.atoms, init, smooth=True
        ).to(device)
        self._target_critic = copy.deepcopy(self._critic).requires_grad_(False)
        self._target_entropy = 0.0 if algo.target_entropy == "auto" else algo.target_entropy
        self._temperature = make_temperature(
            algo.ent_coef, target_entropy=self._target_entropy, rate=rate, betas=cfg.adam_betas, device=device
        )

        self._online = list(self._critic.parameters())
        self._targets = list(self._target_critic.parameters())
        self._actor_optimizer = make_adam(self._actor.parameters(), cfg, rate)
        self._critic_optimizer = make_adam(self._critic.parameters(), cfg, rate)
        self._cfg = cfg
        self._algo = algo

    def update(self, batch: Minibatch, noise: Tensor, acts: bool) -> dict[str, Tensor]:
        """One update; see ``Rule``."""
        inputs, alpha = self.inputs(batch), self._temperature.alpha()
        with torch.no_grad():
            mean, log_std = self._actor(inputs.next_obs)
            next_action, log_prob = squashed_sample(mean, log_std, noise[0])
        metrics = self._update_critic(batch, inputs, next_action, log_prob, alpha)
        metrics |= self._temperature.step(log_prob)
        if acts:
            metrics |= self._update_actor(inputs, noise[1])
        polyak(self._targets, self._online, self._cfg.tau)
        return metrics

    def values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' expected returns; see ``Rule``."""
        return expectation(self._critic(critic_obs, action).softmax(-1), self._support)

    def facts(self) -> dict[str, str]:
        """Resolved values for the header; see ``Rule``."""
        algo = self._algo
        return {
            "atoms": f"{algo.atoms} in [{algo.v_min:g}, {algo.v_max:g}]",
            "ent_coef": str(algo.ent_coef),
            "target entropy": f"{self._target_entropy:g}",
        }

    def parts(self) -> dict[str, Part]:
        """All that decides future updates; see ``Rule``."""
        return {
            "policy": self.policy_module,
            "critic": self._critic,
            "target_critic": self._target_critic,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
            **self._temperature.parts,
        }

    def _update_critic(
        self, batch: Minibatch, inputs: Inputs, next_action: Tensor, log_prob: Tensor, alpha: Tensor
    ) -> dict[str, Tensor]:
        support = self._support
        with torch.no_grad():
            returns = self._target_critic(inputs.next_critic_obs, next_action).softmax(-1)
            discount = batch.discount(self._cfg.gamma) * (batch.terminated == 0)
            reward = soft_reward(inputs.reward, discount, log_prob, alpha)
            targets = project(returns, reward, discount, support)
        logits = self._critic(inputs.critic_obs, batch.action)
        losses = cross_entropy(logits, targets)
        loss = weighted(losses, batch.weights).mean(-1).sum()
        self._critic_optimizer.descend(loss)
        q_mean = expectation(logits.detach().softmax(-1), support).mean()
        edge = at_the_ends(targets)
        metrics = {"critic_loss": loss.detach(), "q_mean": q_mean, "support_edge": edge, "ent_coef": alpha}
        return metrics | divergences(losses, targets, batch.weights)

    def _update_actor(self, inputs: Inputs, noise: Tensor) -> dict[str, Tensor]:
        mean, log_std = self._actor(inputs.obs)
        action, log_prob = squashed_sample(mean, log_std, noise)
        q = self.values(inputs.critic_obs, action).mean(0)
        loss = (self._temperature.alpha() * log_prob - q).mean()
        self._actor_optimizer.descend(loss)
        return {"actor_loss": loss.detach()}


def fastsac_policy(spec: PolicySpec, *, seed: int, index: int) -> GaussianPolicy:
    """What a collector of FastSAC acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, spec.algo_config, network_generator(seed))
    return GaussianPolicy(module, FreshNoise(seed, index))


def _make_module(env: EnvSpec, cfg: LearnerConfig, algo: FastSACConfig, init: torch.Generator) -> NormalizedActor:
    log_std = (algo.log_std_min, algo.log_std_max)
    return make_policy_module(
        env, cfg, init, lambda width: RangedGaussianActor(width, env.action_dim, cfg.hidden, init, log_std=log_std)
    )

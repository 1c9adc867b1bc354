"""Soft actor-critic with twin critics and a learned temperature.

Order within an update, each step seeing the results of those before it:

1. temperature, on actions sampled for ``obs`` (with the actor, every ``policy_delay`` updates);
2. critic target, with the temperature as step 1 left it (Stable-Baselines3 takes the one before);
3. critics;
4. actor, on the actions of step 1, against the critics of step 3 (every ``policy_delay`` updates);
5. target critics, every update.

Source: Haarnoja et al. 2018, arXiv:1812.05905; defaults as in Stable-Baselines3.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unilab.algos.adam import make_adam
from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.inputs import Inputs, make_inputs
from unilab.algos.noise import FreshNoise, network_generator
from unilab.algos.policies import GaussianPolicy
from unilab.algos.policy_module import make_policy_module
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import absolute_errors, polyak, smaller, td_target, twin_loss
from unilab.algos.temperature import check_temperature, make_temperature
from unilab.nets.actor import GaussianActor, NormalizedActor
from unilab.nets.critic import TwinCritic
from unilab.nets.distributions import squashed_sample
from unilab.spec import EnvSpec, Minibatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SACConfig:
    """What only SAC has."""

    ent_coef: float | str = "auto"
    """Temperature: ``auto`` is learned from 1, ``auto_0.1`` learned from 0.1, a number is fixed."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy in nats that a learned temperature keeps; ``auto`` is minus the number of action dimensions."""
    critic_layer_norm: bool = False
    """Layer normalisation in the critics."""

    def __post_init__(self) -> None:
        check_temperature("sac", self.ent_coef, self.target_entropy)


class SAC:
    """The update rule; see the module's docstring for the order of an update.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: SAC's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 2

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: SACConfig,
        *,
        seed: int,
        device: torch.device,
        rate: LearningRate,
    ) -> None:
        init = network_generator(seed)
        module = _make_module(env, cfg, init)
        self.policy_module = module.to(device)
        self._actor = module.actor
        self.inputs = make_inputs(env, module, cfg, device=device)
        self._critic = TwinCritic(
            self.inputs.critic_dim, env.action_dim, cfg.critic_widths, init, layer_norm=algo.critic_layer_norm
        ).to(device)
        self._target_critic = copy.deepcopy(self._critic).requires_grad_(False)
        self._target_entropy = -float(env.action_dim) if algo.target_entropy == "auto" else algo.target_entropy
        self._temperature = make_temperature(
            algo.ent_coef,
            target_entropy=self._target_entropy,
            rate=rate,
            betas=cfg.adam_betas,
            device=device,
        )

        self._online = list(self._critic.parameters())
        self._targets = list(self._target_critic.parameters())
        self._actor_optimizer = make_adam(self._actor.parameters(), cfg, rate)
        self._critic_optimizer = make_adam(self._critic.parameters(), cfg, rate)
        self._cfg = cfg
        self._ent_coef = algo.ent_coef

    def update(self, batch: Minibatch, noise: Tensor, acts: bool) -> dict[str, Tensor]:
        """One update; see ``Rule``."""
        inputs = self.inputs(batch)
        metrics: dict[str, Tensor] = {}
        if acts:
            # Sampled once, for the temperature here and for the actor's own step below.
            mean, log_std = self._actor(inputs.obs)
            action, log_prob = squashed_sample(mean, log_std, noise[0])
            metrics |= self._temperature.step(log_prob)
        alpha = self._temperature.alpha()
        metrics |= self._update_critic(batch, inputs, alpha, noise[1])
        if acts:
            metrics |= self._update_actor(inputs, action, log_prob, alpha)
        polyak(self._targets, self._online, self._cfg.tau)
        return metrics

    def values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' values; see ``Rule``."""
        q: Tensor = self._critic(critic_obs, action)
        return q

    def facts(self) -> dict[str, str]:
        """Resolved values for the header; see ``Rule``."""
        return {
            "ent_coef": str(self._ent_coef),
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

    def _update_critic(self, batch: Minibatch, inputs: Inputs, alpha: Tensor, noise: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            mean, log_std = self._actor(inputs.next_obs)
            next_action, log_prob = squashed_sample(mean, log_std, noise)
            next_q = self._target_critic(inputs.next_critic_obs, next_action)
            next_value = soft_value(next_q, log_prob, alpha)
            target = td_target(inputs.reward, batch.terminated != 0, next_value, batch.discount(self._cfg.gamma))
        q = self._critic(inputs.critic_obs, batch.action)
        loss = twin_loss(q, target, batch.weights)
        self._critic_optimizer.descend(loss)
        errors = absolute_errors(q, target, batch.weights)
        return {"critic_loss": loss.detach(), "q_mean": q.detach().mean(), "ent_coef": alpha} | errors

    def _update_actor(self, inputs: Inputs, action: Tensor, log_prob: Tensor, alpha: Tensor) -> dict[str, Tensor]:
        loss = actor_loss(self._critic(inputs.critic_obs, action), log_prob, alpha)
        self._actor_optimizer.descend(loss)
        return {"actor_loss": loss.detach()}


def soft_value(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """State value with the entropy bonus: q [2, B], log_prob [B], alpha [] -> [B]; equation 3."""
    return smaller(q) - alpha * log_prob


def actor_loss(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """What the actor descends: minus the soft value, averaged; [] float32; equation 7."""
    return -soft_value(q, log_prob, alpha).mean()


def sac_policy(spec: PolicySpec, *, seed: int, index: int) -> GaussianPolicy:
    """What a collector of SAC acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, network_generator(seed))
    return GaussianPolicy(module, FreshNoise(seed, index))


def _make_module(env: EnvSpec, cfg: LearnerConfig, init: torch.Generator) -> NormalizedActor:
    return make_policy_module(env, cfg, init, lambda width: GaussianActor(width, env.action_dim, cfg.hidden, init))

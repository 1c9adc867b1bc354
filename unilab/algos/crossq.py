"""CrossQ: soft actor-critic with batch-normalised networks and without target networks.

The critics see state-action pairs and their successors in one batch, so that both are normalised by the same
statistics; the successors' values are the target, without gradient. Order within an update:

1. actor's forward pass by batch statistics, then the temperature on its actions (every ``policy_delay`` updates);
2. successors' actions, by the actor's running statistics;
3. critics, on the joint batch;
4. actor, on the actions of step 1, against the critics by their running statistics (every ``policy_delay`` updates).

Statistics see every row once, whatever weight it carries in the critics' loss.

Source: Bhatt et al. 2024, arXiv:1902.05605v4; batch renormalisation of Ioffe 2017, arXiv:1702.03275.
"""

from __future__ import annotations

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
from unilab.algos.sac import actor_loss, soft_value
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import absolute_errors, td_target, twin_loss
from unilab.algos.temperature import check_temperature, make_temperature
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor
from unilab.nets.distributions import squashed_sample
from unilab.nets.norm_actor import NormGaussianActor
from unilab.nets.norm_critic import NormTwinCritic
from unilab.spec import EnvSpec, Minibatch


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossQConfig:
    """What only CrossQ has."""

    ent_coef: float | str = "auto"
    """Temperature: ``auto`` is learned from 1, ``auto_0.1`` learned from 0.1, a number is fixed."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy in nats that a learned temperature keeps; ``auto`` is minus the number of action dimensions."""
    norm_momentum: float = 0.99
    """Share of the running statistics that stays at each batch."""
    renorm_warmup: int = 100_000
    """Batches that each network normalises by their own statistics alone, before renormalisation sets in."""

    def __post_init__(self) -> None:
        check_temperature("crossq", self.ent_coef, self.target_entropy)
        if not 0.0 <= self.norm_momentum < 1.0:
            raise ConfigError(f"crossq.norm_momentum={self.norm_momentum!r} cannot work; it must be within [0, 1)")
        if self.renorm_warmup < 0:
            raise ConfigError(f"crossq.renorm_warmup={self.renorm_warmup!r} cannot work; it must be 0 or more")


class CrossQ:
    """The update rule; see the module's docstring for the order of an update.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: CrossQ's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 2

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: CrossQConfig,
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
        self._critic = NormTwinCritic(
            self.inputs.critic_dim,
            env.action_dim,
            cfg.critic_widths,
            init,
            momentum=algo.norm_momentum,
            warmup=algo.renorm_warmup,
        ).to(device)
        self._target_entropy = -float(env.action_dim) if algo.target_entropy == "auto" else algo.target_entropy
        self._temperature = make_temperature(
            algo.ent_coef,
            target_entropy=self._target_entropy,
            rate=rate,
            betas=cfg.adam_betas,
            device=device,
        )
        self._actor_optimizer = make_adam(self._actor.parameters(), cfg, rate)
        self._critic_optimizer = make_adam(self._critic.parameters(), cfg, rate)
        self._cfg = cfg
        self._ent_coef = algo.ent_coef

    def update(self, batch: Minibatch, noise: Tensor, acts: bool) -> dict[str, Tensor]:
        """One update; see ``Rule``."""
        inputs = self.inputs(batch)
        metrics: dict[str, Tensor] = {}
        if acts:
            mean, log_std = self._actor.learn(inputs.obs)
            action, log_prob = squashed_sample(mean, log_std, noise[0])
            metrics |= self._temperature.step(log_prob)
        alpha = self._temperature.alpha()
        metrics |= self._update_critic(batch, inputs, alpha, noise[1])
        if acts:
            metrics |= self._update_actor(inputs, action, log_prob, alpha)
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
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
            **self._temperature.parts,
        }

    def _update_critic(self, batch: Minibatch, inputs: Inputs, alpha: Tensor, noise: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            mean, log_std = self._actor(inputs.next_obs)
            next_action, log_prob = squashed_sample(mean, log_std, noise)
        obs = torch.cat((inputs.critic_obs, inputs.next_critic_obs))
        q, next_q = self._critic.learn(obs, torch.cat((batch.action, next_action))).chunk(2, dim=-1)
        next_value = soft_value(next_q.detach(), log_prob, alpha)
        target = td_target(inputs.reward, batch.terminated != 0, next_value, batch.discount(self._cfg.gamma))
        loss = twin_loss(q, target, batch.weights)
        self._critic_optimizer.descend(loss)
        errors = absolute_errors(q, target, batch.weights)
        return {"critic_loss": loss.detach(), "q_mean": q.detach().mean(), "ent_coef": alpha} | errors

    def _update_actor(self, inputs: Inputs, action: Tensor, log_prob: Tensor, alpha: Tensor) -> dict[str, Tensor]:
        loss = actor_loss(self._critic(inputs.critic_obs, action), log_prob, alpha)
        self._actor_optimizer.descend(loss)
        return {"actor_loss": loss.detach()}


def crossq_policy(spec: PolicySpec, *, seed: int, index: int) -> GaussianPolicy:
    """What a collector of CrossQ acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, spec.algo_config, network_generator(seed))
    return GaussianPolicy(module, FreshNoise(seed, index))


def _make_module(env: EnvSpec, cfg: LearnerConfig, algo: CrossQConfig, init: torch.Generator) -> NormalizedActor:
    def make_actor(width: int) -> NormGaussianActor:
        return NormGaussianActor(
            width, env.action_dim, cfg.hidden, init, momentum=algo.norm_momentum, warmup=algo.renorm_warmup
        )

    return make_policy_module(env, cfg, init, make_actor)

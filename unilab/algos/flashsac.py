"""FlashSAC: soft actor-critic with categorical critics and networks whose layers keep their length.

Order within an update:

1. actor, on states and their successors in one batch (loss of the states only) against the critics by their running
   statistics, then the temperature on its actions (every ``policy_delay`` updates);
2. successors' actions, by the actor's running statistics;
3. target critics on pairs and successors in one batch; of each row the distribution that expects less, shifted by
   reward and entropy bonus and put back on the atoms, is the target;
4. critics, on the same joint batch, by cross entropy;
5. target critics' parameters; their running statistics are their own.

After each optimiser step every layer gets its length back. Rewards are scaled by ``norm_reward``.
Statistics see every row once, whatever weight it carries in the critics' loss.

Source: FlashSAC; the entropy target by a standard deviation, the held noise and the joint batches as published with it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unilab.algos.adam import make_adam
from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.categorical import (
    Support,
    at_the_ends,
    cross_entropy,
    divergences,
    expectation,
    lower_mean,
    project,
    soft_reward,
)
from unilab.algos.held_noise import HeldNoise
from unilab.algos.inputs import Inputs, make_inputs
from unilab.algos.noise import network_generator
from unilab.algos.policies import GaussianPolicy
from unilab.algos.policy_module import make_policy_module
from unilab.algos.sac import actor_loss
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import polyak, weighted
from unilab.algos.temperature import make_temperature, parse_ent_coef
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor
from unilab.nets.distributions import squashed_sample
from unilab.nets.unit_body import project as project_lengths
from unilab.nets.unit_nets import UnitActor, UnitTwinCritic
from unilab.spec import EnvSpec, Minibatch


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashSACConfig:
    """What only FlashSAC has. ``hidden`` and ``critic_hidden`` are the widths of residual blocks, equal in a net."""

    ent_coef: float | str = "auto_0.01"
    """Temperature: ``auto_0.01`` is learned from 0.01, a number is fixed."""
    target_std: float = 0.15
    """A learned temperature keeps the entropy of a Gaussian with this standard deviation in each action dimension."""
    atoms: int = 101
    """Values of return on which each critic puts probabilities."""
    value_bound: float = 5.0
    """The atoms lie from minus this to this, in scaled rewards."""
    noise_steps: int = 16
    """Most steps that exploration noise is held; 1: it is fresh at each step."""

    def __post_init__(self) -> None:
        learned, _ = parse_ent_coef(self.ent_coef)
        if not learned and self.target_std != 0.15:
            raise ConfigError(
                f"target_std={self.target_std} would have no effect with a fixed ent_coef={self.ent_coef}"
            )
        _require("target_std", self.target_std, 0.0 < self.target_std < math.inf, "above 0")
        _require("atoms", self.atoms, self.atoms >= 2, "2 or more")
        _require("value_bound", self.value_bound, 0.0 < self.value_bound < math.inf, "above 0")
        _require("noise_steps", self.noise_steps, self.noise_steps >= 1, "1 or more")


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"flashsac.{name}={value!r} cannot work; it must be {rule}")


class FlashSAC:
    """The update rule; see the module's docstring for the order of an update.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: FlashSAC's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 2

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: FlashSACConfig,
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
        self._critic = UnitTwinCritic(self.inputs.critic_dim, env.action_dim, cfg.critic_widths, algo.atoms, init).to(
            device
        )
        self._target_critic = copy.deepcopy(self._critic).requires_grad_(False)
        self._support = Support(-algo.value_bound, algo.value_bound, algo.atoms)
        self._target_entropy = gaussian_entropy(algo.target_std, env.action_dim)
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
            metrics |= self._update_actor(inputs, noise[0])
        alpha = self._temperature.alpha()
        metrics |= self._update_critic(batch, inputs, alpha, noise[1])
        polyak(self._targets, self._online, self._cfg.tau)
        return metrics

    def values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' expected returns; see ``Rule``."""
        return self._values(self._critic(critic_obs, action))

    def facts(self) -> dict[str, str]:
        """Resolved values for the header; see ``Rule``."""
        return {
            "ent_coef": str(self._ent_coef),
            "target entropy": f"{self._target_entropy:.3g}",
            "atoms": f"{self._support.count} within +-{self._support.high:g}",
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

    def _update_actor(self, inputs: Inputs, noise: Tensor) -> dict[str, Tensor]:
        mean, log_std = self._actor.learn(torch.cat((inputs.obs, inputs.next_obs)), slice(len(noise)))
        action, log_prob = squashed_sample(mean, log_std, noise)
        q = self._values(self._critic(inputs.critic_obs, action))
        loss = actor_loss(q, log_prob, self._temperature.alpha())
        self._actor_optimizer.descend(loss)
        project_lengths(self._actor)
        return {"actor_loss": loss.detach()} | self._temperature.step(log_prob)

    def _update_critic(self, batch: Minibatch, inputs: Inputs, alpha: Tensor, noise: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            mean, log_std = self._actor(inputs.next_obs)
            next_action, log_prob = squashed_sample(mean, log_std, noise)
            obs = torch.cat((inputs.critic_obs, inputs.next_critic_obs))
            action = torch.cat((batch.action, next_action))
            following = self._target_critic.learn(obs, action, slice(len(noise), None)).softmax(-1)
            discount = (batch.terminated == 0) * batch.discount(self._cfg.gamma)
            reward = soft_reward(inputs.reward, discount, log_prob, alpha)
            target = project(lower_mean(following, self._support), reward, discount, self._support)
        logits = self._critic.learn(obs, action, slice(len(noise)))
        losses = cross_entropy(logits, target)
        loss = weighted(losses, batch.weights).mean()
        self._critic_optimizer.descend(loss)
        project_lengths(self._critic)
        q_mean = self._values(logits.detach()).mean()
        edge = at_the_ends(target)
        metrics = {"critic_loss": loss.detach(), "q_mean": q_mean, "support_edge": edge, "ent_coef": alpha}
        return metrics | divergences(losses, target, batch.weights)

    def _values(self, logits: Tensor) -> Tensor:
        """Expected returns, [2, B, K] -> [2, B] float32, in scaled rewards."""
        return expectation(logits.softmax(-1), self._support)


def gaussian_entropy(std: float, dims: int) -> float:
    """Nats of a Gaussian with ``std`` in each of ``dims`` dimensions, before any squashing."""
    return 0.5 * dims * math.log(2.0 * math.pi * math.e * std**2)


def flashsac_policy(spec: PolicySpec, *, seed: int, index: int) -> GaussianPolicy:
    """What a collector of FlashSAC acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, network_generator(seed))
    noise = HeldNoise(seed, index, longest=spec.algo_config.noise_steps, action_dim=spec.env.action_dim)
    return GaussianPolicy(module, noise)


def _make_module(env: EnvSpec, cfg: LearnerConfig, init: torch.Generator) -> NormalizedActor:
    return make_policy_module(env, cfg, init, lambda width: UnitActor(width, env.action_dim, cfg.hidden, init))

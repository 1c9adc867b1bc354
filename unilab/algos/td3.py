"""Twin delayed DDPG: clipped double critics, delayed actor and targets, smoothed target actions.

Actor, target actor and target critics move together, every ``policy_delay`` updates; the critics at each.

Source: Fujimoto et al. 2018, arXiv:1802.09477, algorithm 1.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unilab.algos.adam import make_adam
from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.curve import Shape, check_noise_curve, noise_words
from unilab.algos.inputs import Inputs, make_inputs
from unilab.algos.noise import FreshNoise, network_generator
from unilab.algos.policies import NoisyPolicy
from unilab.algos.policy_module import make_policy_module
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import absolute_errors, polyak, smaller, smoothed_action, td_target, twin_loss
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor, TanhActor
from unilab.nets.critic import TwinCritic
from unilab.spec import EnvSpec, Minibatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TD3Config:
    """What only TD3 has; noise in the normalised action scale, where the whole range is 2."""

    exploration_noise: float = 0.1
    """Standard deviation of the noise added to actions while collecting."""
    noise_schedule: Shape = "constant"
    """How that noise falls over the env steps of the run, from the end of the prefill."""
    noise_final: float = 0.0
    """That noise at the end of the run as a share of the first, where it falls."""
    target_noise: float = 0.2
    """Standard deviation of the noise that smooths target actions."""
    noise_clip: float = 0.5
    """Largest change of a target action by that noise."""
    critic_layer_norm: bool = False
    """Layer normalisation in the critics."""

    def __post_init__(self) -> None:
        for name in ("exploration_noise", "target_noise", "noise_clip"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ConfigError(f"td3.{name}={value!r} cannot work; it must be 0 or more")
        check_noise_curve("td3", self.noise_schedule, self.noise_final, self.exploration_noise)


class TD3:
    """The update rule.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: TD3's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 1

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: TD3Config,
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
        self._target_actor = copy.deepcopy(self._actor).requires_grad_(False)
        self._target_critic = copy.deepcopy(self._critic).requires_grad_(False)

        self._online = [*self._actor.parameters(), *self._critic.parameters()]
        self._targets = [*self._target_actor.parameters(), *self._target_critic.parameters()]
        self._actor_optimizer = make_adam(self._actor.parameters(), cfg, rate)
        self._critic_optimizer = make_adam(self._critic.parameters(), cfg, rate)
        self._cfg = cfg
        self._algo = algo

    def update(self, batch: Minibatch, noise: Tensor, acts: bool) -> dict[str, Tensor]:
        """One update; see ``Rule``."""
        inputs = self.inputs(batch)
        metrics = self._update_critic(batch, inputs, noise[0])
        if acts:
            metrics |= self._update_actor(inputs)
            polyak(self._targets, self._online, self._cfg.tau)
        return metrics

    def values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' values; see ``Rule``."""
        q: Tensor = self._critic(critic_obs, action)
        return q

    def facts(self) -> dict[str, str]:
        """Resolved values for the header; see ``Rule``."""
        algo = self._algo
        falls = noise_words(algo.noise_schedule, algo.noise_final)
        return {"exploration noise": f"{algo.exploration_noise:g}{falls}"}

    def parts(self) -> dict[str, Part]:
        """All that decides future updates; see ``Rule``."""
        return {
            "policy": self.policy_module,
            "target_actor": self._target_actor,
            "critic": self._critic,
            "target_critic": self._target_critic,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }

    def _update_critic(self, batch: Minibatch, inputs: Inputs, noise: Tensor) -> dict[str, Tensor]:
        algo = self._algo
        with torch.no_grad():
            next_action = smoothed_action(
                self._target_actor(inputs.next_obs), noise, scale=algo.target_noise, clip=algo.noise_clip
            )
            next_q = smaller(self._target_critic(inputs.next_critic_obs, next_action))
            target = td_target(inputs.reward, batch.terminated != 0, next_q, batch.discount(self._cfg.gamma))
        q = self._critic(inputs.critic_obs, batch.action)
        loss = 2.0 * twin_loss(q, target, batch.weights)
        self._critic_optimizer.descend(loss)
        errors = absolute_errors(q, target, batch.weights)
        return {"critic_loss": loss.detach(), "q_mean": q.detach().mean()} | errors

    def _update_actor(self, inputs: Inputs) -> dict[str, Tensor]:
        loss = -self._critic.first(inputs.critic_obs, self._actor(inputs.obs)).mean()
        self._actor_optimizer.descend(loss)
        return {"actor_loss": loss.detach()}


def td3_policy(spec: PolicySpec, *, seed: int, index: int) -> NoisyPolicy:
    """What a collector of TD3 acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, network_generator(seed))
    algo = spec.algo_config
    noise = FreshNoise(seed, index, scale=algo.exploration_noise)
    return NoisyPolicy(module, noise, schedule=algo.noise_schedule, final=algo.noise_final)


def _make_module(env: EnvSpec, cfg: LearnerConfig, init: torch.Generator) -> NormalizedActor:
    return make_policy_module(env, cfg, init, lambda width: TanhActor(width, env.action_dim, cfg.hidden, init))

"""FastTD3: TD3 with categorical critics, for many envs and large batches.

Both critics learn the distribution of the one that expects less; the target action comes from the online actor, there
is no target actor. Each env explores with a noise of its own size, drawn anew for every episode. Order within an
update: critics, actor (every ``policy_delay`` updates), target critics.

Source: Seo et al. 2025, arXiv:2505.22642.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unilab.algos.adam import make_adam
from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.categorical import (
    Support,
    at_the_ends,
    check_support,
    cross_entropy,
    divergences,
    expectation,
    lower_mean,
    project,
)
from unilab.algos.curve import Shape, check_noise_curve, noise_words
from unilab.algos.inputs import Inputs, make_inputs
from unilab.algos.noise import ScaledNoise, network_generator
from unilab.algos.policies import NoisyPolicy
from unilab.algos.policy_module import make_policy_module
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.algos.targets import polyak, smaller, smoothed_action, weighted
from unilab.errors import ConfigError
from unilab.nets.actor import NormalizedActor, TanhActor
from unilab.nets.categorical_critic import CategoricalCritic
from unilab.spec import EnvSpec, Minibatch

_FIRST_ACTIONS = 0.01  # standard deviation of the actor's last weights: the first actions are near 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FastTD3Config:
    """What only FastTD3 has; noise in the normalised action scale, where the whole range is 2."""

    noise_min: float = 0.001
    """Smallest standard deviation of an env's exploration noise."""
    noise_max: float = 0.4
    """Largest one; each env draws its own for every episode, uniformly between the two."""
    noise_schedule: Shape = "constant"
    """How both fall over the env steps of the run, from the end of the prefill."""
    noise_final: float = 0.0
    """Exploration noise at the end of the run as a share of the first, where it falls."""
    target_noise: float = 0.001
    """Standard deviation of the noise that smooths target actions."""
    noise_clip: float = 0.5
    """Largest change of a target action by that noise."""
    atoms: int = 101
    """Values that a critic's distribution has."""
    v_min: float = -10.0
    """Lowest return that a critic can expect, in scaled rewards with norm_reward."""
    v_max: float = 10.0
    """Highest one."""

    def __post_init__(self) -> None:
        for name in ("noise_min", "target_noise", "noise_clip"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ConfigError(f"fasttd3.{name}={value!r} cannot work; it must be 0 or more")
        if not self.noise_min <= self.noise_max < math.inf:
            raise ConfigError(f"fasttd3.noise_max={self.noise_max!r} must be noise_min={self.noise_min!r} or more")
        check_noise_curve("fasttd3", self.noise_schedule, self.noise_final, self.noise_max)
        check_support("fasttd3", self.v_min, self.v_max, self.atoms)


class FastTD3:
    """The update rule; see the module's docstring for the order of an update.

    Args:
        env: shapes of observations and actions.
        cfg: hyperparameters shared by all algorithms.
        algo: FastTD3's own.
        seed: of the run; networks and noise have streams of their own.
        device: where networks, optimisers and noise live.
        rate: the run's learning rate.
    """

    draws = 1

    def __init__(
        self,
        env: EnvSpec,
        cfg: LearnerConfig,
        algo: FastTD3Config,
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
        self._support = Support(algo.v_min, algo.v_max, algo.atoms)
        self._critic = CategoricalCritic(
            self.inputs.critic_dim, env.action_dim, cfg.critic_widths, algo.atoms, init, smooth=False
        ).to(device)
        self._target_critic = copy.deepcopy(self._critic).requires_grad_(False)

        self._online = list(self._critic.parameters())
        self._targets = list(self._target_critic.parameters())
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
        """Both critics' expected returns; see ``Rule``."""
        return expectation(self._critic(critic_obs, action).softmax(-1), self._support)

    def facts(self) -> dict[str, str]:
        """Resolved values for the header; see ``Rule``."""
        algo = self._algo
        falls = noise_words(algo.noise_schedule, algo.noise_final)
        return {
            "atoms": f"{algo.atoms} in [{algo.v_min:g}, {algo.v_max:g}]",
            "exploration noise": f"{algo.noise_min:g} to {algo.noise_max:g}{falls}",
        }

    def parts(self) -> dict[str, Part]:
        """All that decides future updates; see ``Rule``."""
        return {
            "policy": self.policy_module,
            "critic": self._critic,
            "target_critic": self._target_critic,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }

    def _update_critic(self, batch: Minibatch, inputs: Inputs, noise: Tensor) -> dict[str, Tensor]:
        algo, support = self._algo, self._support
        with torch.no_grad():
            next_action = smoothed_action(
                self._actor(inputs.next_obs), noise, scale=algo.target_noise, clip=algo.noise_clip
            )
            returns = lower_mean(self._target_critic(inputs.next_critic_obs, next_action).softmax(-1), support)
            discount = batch.discount(self._cfg.gamma) * (batch.terminated == 0)
            target = project(returns, inputs.reward, discount, support)
        logits = self._critic(inputs.critic_obs, batch.action)
        losses = cross_entropy(logits, target)
        loss = weighted(losses, batch.weights).mean(-1).sum()
        self._critic_optimizer.descend(loss)
        q = expectation(logits.detach().softmax(-1), support)
        metrics = {"critic_loss": loss.detach(), "q_mean": q.mean(), "support_edge": at_the_ends(target)}
        return metrics | divergences(losses, target, batch.weights)

    def _update_actor(self, inputs: Inputs) -> dict[str, Tensor]:
        loss = -smaller(self.values(inputs.critic_obs, self._actor(inputs.obs))).mean()
        self._actor_optimizer.descend(loss)
        return {"actor_loss": loss.detach()}


def fasttd3_policy(spec: PolicySpec, *, seed: int, index: int) -> NoisyPolicy:
    """What a collector of FastTD3 acts with; arguments as for ``make_policy``."""
    module = _make_module(spec.env, spec.learner, network_generator(seed))
    algo = spec.algo_config
    noise = ScaledNoise(seed, index, low=algo.noise_min, high=algo.noise_max)
    return NoisyPolicy(module, noise, schedule=algo.noise_schedule, final=algo.noise_final)


def _make_module(env: EnvSpec, cfg: LearnerConfig, init: torch.Generator) -> NormalizedActor:
    def make_actor(width: int) -> TanhActor:
        actor = TanhActor(width, env.action_dim, cfg.hidden, init)
        last = actor.net[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.normal_(0.0, _FIRST_ACTIONS, generator=init)
            last.bias.zero_()
        return actor

    return make_policy_module(env, cfg, init, make_actor)

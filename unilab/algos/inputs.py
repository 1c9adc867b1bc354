"""From raw replay columns to what an update works on: which normaliser each of them goes through.

Replay holds raw observations and rewards; an update normalises them with the newest statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unilab.algos.base import LearnerConfig
from unilab.nets.actor import NormalizedActor
from unilab.nets.normalizer import NoNorm, RunningNorm, make_norm
from unilab.nets.reward_scale import NoRewardScale, RewardScale
from unilab.spec import EnvSpec, Minibatch

Norm = RunningNorm | NoNorm
Scale = RewardScale | NoRewardScale


@dataclass(frozen=True, slots=True)
class Inputs:
    """Normalised columns of one minibatch, float32."""

    obs: Tensor  # [B, sight.dim], what the actor sees
    next_obs: Tensor  # [B, sight.dim]
    critic_obs: Tensor  # [B, critic_dim or obs_dim]
    next_critic_obs: Tensor  # [B, critic_dim or obs_dim]
    reward: Tensor  # [B]


class SharedInputs:
    """The critics see what the actor sees."""

    def __init__(self, env: EnvSpec, norm: Norm, scale: Scale) -> None:
        self.critic_dim = env.obs_dim
        self._norm = norm
        self.rewards = scale
        self.parts: dict[str, nn.Module] = _stateful(reward_scale=scale)

    def __call__(self, batch: Minibatch) -> Inputs:
        """Normalise each column once."""
        obs, next_obs = self._norm(batch.obs), self._norm(batch.next_obs)
        return Inputs(obs, next_obs, obs, next_obs, self.rewards(batch.reward))

    def for_critic(self, critic_obs: Tensor) -> Tensor:
        """Raw critic observations [B, critic_dim] as the critics see them."""
        seen: Tensor = self._norm(critic_obs)
        return seen

    def observe(self, obs: Tensor, critic_obs: Tensor | None) -> None:
        """Feed new rows to the normaliser, each exactly once."""
        self._norm.update(obs)


class PrivilegedInputs:
    """The critics see the env's critic group, through a normaliser that stays with the learner."""

    def __init__(self, env: EnvSpec, module: NormalizedActor, critic_norm: Norm, scale: Scale) -> None:
        self.critic_dim = env.critic_dim
        self._norm = module.norm
        self._sight = module.sight
        self._critic_norm = critic_norm
        self.rewards = scale
        self.parts: dict[str, nn.Module] = {"critic_norm": critic_norm} | _stateful(reward_scale=scale)

    def __call__(self, batch: Minibatch) -> Inputs:
        """Normalise each column once."""
        return Inputs(
            self._norm(self._sight(batch.obs, batch.critic_obs)),
            self._norm(self._sight(batch.next_obs, batch.next_critic_obs)),
            self._critic_norm(batch.critic_obs),
            self._critic_norm(batch.next_critic_obs),
            self.rewards(batch.reward),
        )

    def for_critic(self, critic_obs: Tensor) -> Tensor:
        """Raw critic observations [B, critic_dim] as the critics see them."""
        seen: Tensor = self._critic_norm(critic_obs)
        return seen

    def observe(self, obs: Tensor, critic_obs: Tensor | None) -> None:
        """Feed new rows to both normalisers, each exactly once."""
        assert critic_obs is not None, "the env has a critic group, its rows must come along"
        self._norm.update(self._sight(obs, critic_obs))
        self._critic_norm.update(critic_obs)


def make_inputs(
    env: EnvSpec, module: NormalizedActor, cfg: LearnerConfig, *, device: torch.device
) -> SharedInputs | PrivilegedInputs:
    """Choose by whether the env has a critic group; ``module`` is what is published, with its normaliser."""
    scale = (RewardScale() if cfg.norm_reward else NoRewardScale()).to(device)
    if not env.critic_dim:
        return SharedInputs(env, module.norm, scale)
    return PrivilegedInputs(env, module, make_norm(env.critic_dim, enabled=cfg.norm_obs).to(device), scale)


def _stateful(**modules: nn.Module) -> dict[str, nn.Module]:
    """Those that have something to save; checkpoints from before there were such modules stay readable."""
    return {name: module for name, module in modules.items() if module.state_dict()}

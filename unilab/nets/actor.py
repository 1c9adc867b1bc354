"""Actors: observation in, action or action distribution out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from unilab.nets.mlp import mlp
from unilab.nets.normalizer import NoNorm, RunningNorm
from unilab.nets.sight import Sight

LOG_STD_MIN = -20.0
LOG_STD_MAX = 2.0


class GaussianActor(nn.Module):
    """MLP whose two heads, mean and log standard deviation, are one matrix; squashed by tanh outside.

    Args:
        obs_dim: width of the (normalised) observation.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        generator: source of the initial weights, torch's default distribution.

    Source: log_std clamped to [-20, 2] as in Stable-Baselines3's SAC.
    """

    def __init__(self, obs_dim: int, action_dim: int, hidden: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.net = mlp((obs_dim, *hidden, 2 * action_dim), generator)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and clamped log_std before the squashing, [B, action_dim] float32 each."""
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, tanh of the mean; [B, action_dim] float32 in [-1, 1]."""
        return self.forward(obs)[0].tanh()


class TanhActor(nn.Module):
    """Deterministic actor: an MLP with tanh at its end; arguments as for ``GaussianActor``."""

    def __init__(self, obs_dim: int, action_dim: int, hidden: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.net = mlp((obs_dim, *hidden, action_dim), generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Action, [B, action_dim] float32 in [-1, 1]."""
        action: Tensor = self.net(obs).tanh()
        return action

    def mode(self, obs: Tensor) -> Tensor:
        """The same as calling it; named as in ``GaussianActor``."""
        return self.forward(obs)


class Actor(Protocol):
    """What is asked of an actor."""

    def __call__(self, obs: Tensor) -> Any:
        """What the algorithm explores with."""

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, [B, action_dim] float32 in [-1, 1]."""


class NormalizedActor(nn.Module):
    """Normaliser and actor, all that is published to collectors; called, it acts deterministically.

    Args:
        norm: takes raw rows of what the actor sees.
        actor: takes normalised ones.
        sight: how those rows follow from an observation.
    """

    def __init__(self, norm: RunningNorm | NoNorm, actor: Actor, sight: Sight) -> None:
        super().__init__()
        self.norm = norm
        self.actor: Any = actor
        self.sight = sight

    def forward(self, seen: Tensor) -> Tensor:
        """What the actor sees, raw, [B, sight.dim] float32, to deterministic action [B, action_dim] in [-1, 1]."""
        action: Tensor = self.actor.mode(self.norm(seen))
        return action

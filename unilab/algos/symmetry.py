"""Symmetry augmentation: half of the rows of each update are seen in the mirror.

Where an env declares its mirror map, the mirror image of a transition is a transition too. RSL-RL adds the images to
each minibatch, which doubles its rows and its cost. Here they take the place of half of the rows: these are
drawn uniformly and independently, so the latter half is any half, the gradient has the same expectation, and an update
costs what it costs without. Every other row is as it was stored.

Normalisers are fed what the env gave, each row once, and no images.

Source: Mittal et al. 2024, arXiv:2403.04359 (data augmentation by mirrored samples).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from unilab.mirror import Mirror, SignedPermutation
from unilab.spec import Minibatch

Augment = Callable[[Minibatch], Minibatch]


def unchanged(batch: Minibatch) -> Minibatch:
    """As stored."""
    return batch


class HalfMirrored:
    """Mirrors the latter half of a minibatch; a row in the middle too.

    Args:
        mirror: of the env.
        device: of the minibatches.
    """

    def __init__(self, mirror: Mirror, device: torch.device) -> None:
        self._obs = _Half(mirror.obs, device)
        self._action = _Half(mirror.action, device)
        self._critic = self._obs if mirror.critic is None else _Half(mirror.critic, device)

    def __call__(self, batch: Minibatch) -> Minibatch:
        """New columns; those of ``batch`` stay. Reward, flags, steps and weights are the same in the mirror."""
        obs, next_obs = self._obs(batch.obs), self._obs(batch.next_obs)
        shared = batch.critic_obs is batch.obs
        return replace(
            batch,
            obs=obs,
            action=self._action(batch.action),
            next_obs=next_obs,
            critic_obs=obs if shared else self._critic(batch.critic_obs),
            next_critic_obs=next_obs if shared else self._critic(batch.next_critic_obs),
        )


class _Half:
    """One group: [B, dim] to [B, dim]."""

    def __init__(self, mirror: SignedPermutation, device: torch.device) -> None:
        self._index = torch.tensor(mirror.index, device=device)
        self._sign = torch.tensor(mirror.sign, dtype=torch.float32, device=device)

    def __call__(self, rows: Tensor) -> Tensor:
        half = len(rows) // 2
        return torch.cat([rows[:half], rows[half:].index_select(1, self._index) * self._sign])

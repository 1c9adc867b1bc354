"""Rewards scaled by running statistics of discounted returns, and the identity.

Two implementations behind one set of calls, as for observations in ``nets.normalizer``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unilab.spec import ReturnStats

BOUND = 5.0
"""Largest magnitude of a discounted return once it is scaled.

The support of categorical critics is twice as wide: what a policy is worth runs ahead of the returns seen so far."""


class RewardScale(nn.Module):
    """reward / max(std(G), max |G| / ``BOUND``) with G the discounted returns of all env steps so far.

    A scaled return has a standard deviation of at most 1 and stays within ``BOUND``, whatever the env pays. There is no
    shift: it would change what a policy is worth. Statistics are float64, merged chunk by chunk, and change in place.
    Rewards are scaled where they are used, with the newest statistics; what is stored stays as the env gave it.

    Source: FlashSAC and SimbaV2 (Lee et al. 2025, arXiv:2502.15280); Chan, Golub, LeVeque 1983 for the merge.
    """

    count: Tensor  # [] int64, env steps
    mean: Tensor  # [] float64
    m2: Tensor  # [] float64, sum of squared deviations from the mean
    peak: Tensor  # [] float64, largest magnitude
    scale: Tensor  # [] float32, factor of a reward; 1 while all rewards were 0

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        for name in ("mean", "m2", "peak"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, reward: Tensor) -> Tensor:
        """Scale [B] float32."""
        return reward * self.scale

    def in_env_units(self, value: Tensor) -> Tensor:
        """What a scaled value is worth in the env's own rewards."""
        return value / self.scale

    @torch.no_grad()
    def update(self, returns: ReturnStats) -> None:
        """Merge the statistics of new env steps, each to be given exactly once."""
        if not returns.count:
            return
        n = returns.count
        delta = returns.mean - self.mean
        total = (self.count + n).double()
        self.m2.add_(returns.m2 + delta.square() * (self.count * (n / total)))
        self.mean.add_(delta * (n / total))
        self.count.add_(n)
        self.peak.clamp_(min=returns.peak)
        divisor = torch.maximum((self.m2 / total).sqrt(), self.peak / BOUND)
        self.scale.copy_(torch.where(divisor > 0.0, 1.0 / divisor, 1.0))

    def scalars(self) -> dict[str, Tensor]:
        """To be logged: [] float32 by name."""
        return {"reward_scale": self.scale.clone()}


class NoRewardScale(nn.Module):
    """The identity, without state."""

    def forward(self, reward: Tensor) -> Tensor:
        """Return ``reward`` itself."""
        return reward

    def in_env_units(self, value: Tensor) -> Tensor:
        """Return ``value`` itself."""
        return value

    def update(self, returns: ReturnStats) -> None:
        """Ignore the statistics."""

    def scalars(self) -> dict[str, Tensor]:
        """None."""
        return {}

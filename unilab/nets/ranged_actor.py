"""A Gaussian actor whose standard deviation cannot leave a range."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from unilab.nets.mlp import linear


class RangedGaussianActor(nn.Module):
    """Layer normalisation and SiLU after each hidden layer; log_std mapped into its range by tanh, never cut off.

    Mean and log standard deviation start at 0 and in the middle of the range whatever the observation, so that the
    first actions are noise around the middle of the action range.

    Args:
        obs_dim: width of the (normalised) observation.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        generator: source of the initial weights.
        log_std: lowest and highest.

    Source: FastSAC, Seo et al. 2025, arXiv:2512.01996.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        log_std: tuple[float, float],
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise((obs_dim, *hidden)):
            layers += [linear(fan_in, fan_out, generator), nn.LayerNorm(fan_out), nn.SiLU()]
        self.body = nn.Sequential(*layers)
        self.head = linear(hidden[-1], 2 * action_dim, generator)  # mean and log_std are one matrix
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        low, high = log_std
        self._middle, self._half = (high + low) / 2.0, (high - low) / 2.0

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log_std before the squashing, [B, action_dim] float32 each."""
        mean, raw = self.head(self.body(obs)).float().chunk(2, dim=-1)
        return mean, self._middle + self._half * raw.tanh()

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, tanh of the mean; [B, action_dim] float32 in [-1, 1]."""
        return self.forward(obs)[0].tanh()

"""A Gaussian actor with batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from unilab.nets.actor import LOG_STD_MAX, LOG_STD_MIN
from unilab.nets.batch_norm import BatchRenorm, NormStack
from unilab.nets.mlp import linear


class NormGaussianActor(nn.Module):
    """Normalises its input and what each ReLU gives; heads, clamp and squashing as in ``GaussianActor``.

    Args:
        obs_dim: width of the observation.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        generator: source of the initial weights.
        momentum: of the running statistics.
        warmup: batches before renormalisation.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        momentum: float,
        warmup: int,
    ) -> None:
        super().__init__()
        widths = (obs_dim, *hidden)
        norms = [BatchRenorm((1, width), momentum=momentum, warmup=warmup) for width in widths]
        self.body = NormStack([linear(*pair, generator) for pair in pairwise(widths)], norms)
        self.head = linear(widths[-1], 2 * action_dim, generator)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and clamped log_std by the running statistics, [B, action_dim] float32 each."""
        return self._heads(self.body(obs))

    def learn(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The same by the batch's own statistics, which move the running ones."""
        return self._heads(self.body.learn(obs))

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, tanh of the mean; [B, action_dim] float32 in [-1, 1]."""
        return self.forward(obs)[0].tanh()

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.head(x).float().chunk(2, dim=-1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

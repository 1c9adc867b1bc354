"""Twin critics with batch normalisation, as one batched module."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unilab.nets.batch_norm import BatchRenorm, NormStack
from unilab.nets.critic import MEMBERS, TwinHead, TwinLinear
from unilab.nets.mlp import linear


class NormTwinCritic(nn.Module):
    """Two Q-networks that normalise their input and what each ReLU gives, evaluated together.

    Args:
        obs_dim: width of the observation that the critics see.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        generator: source of the initial weights, layer by layer.
        momentum: of the running statistics.
        warmup: batches before renormalisation.

    Source: CrossQ, Bhatt et al. 2024, arXiv:1902.05605, figure 3 and appendix A.
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
        widths = (obs_dim + action_dim, *hidden)
        pairs = zip(widths, (*hidden, 1), strict=True)
        *inner, head = [[linear(*pair, generator) for _ in range(MEMBERS)] for pair in pairs]
        norms = [BatchRenorm((MEMBERS, 1, width), momentum=momentum, warmup=warmup) for width in widths]
        self.body = NormStack([TwinLinear(layer) for layer in inner], norms)
        self.head = TwinHead(head)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Values of both members by the running statistics.

        Args:
            obs: [B, obs_dim] float32.
            action: [B, action_dim] float32 in [-1, 1].

        Returns:
            [2, B] float32.
        """
        values: Tensor = self.head(self.body(_joined(obs, action)))
        return values

    def learn(self, obs: Tensor, action: Tensor) -> Tensor:
        """Values by the batch's own statistics, which move the running ones; as ``forward`` otherwise."""
        values: Tensor = self.head(self.body.learn(_joined(obs, action)))
        return values


def _joined(obs: Tensor, action: Tensor) -> Tensor:
    return torch.cat((obs, action), dim=-1).expand(MEMBERS, -1, -1)

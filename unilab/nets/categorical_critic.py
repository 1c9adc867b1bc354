"""Twin critics that give a distribution each, as one batched module."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unilab.nets.critic import MEMBERS, TwinLayerNorm, TwinLinear
from unilab.nets.mlp import linear


class CategoricalCritic(nn.Module):
    """Two networks with separate weights, evaluated together, with one output an atom.

    Args:
        obs_dim: width of the (normalised) observation that the critics see.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        atoms: of the distributions.
        generator: source of the initial weights, layer by layer.
        smooth: layer normalisation and SiLU after each hidden layer, instead of ReLU.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden: Sequence[int],
        atoms: int,
        generator: torch.Generator,
        *,
        smooth: bool,
    ) -> None:
        super().__init__()
        widths = (obs_dim + action_dim, *hidden)
        pairs = zip(widths, (*hidden, atoms), strict=True)
        *inner, head = [[linear(*pair, generator) for _ in range(MEMBERS)] for pair in pairs]
        layers: list[nn.Module] = []
        for members in inner:
            layers.append(TwinLinear(members))
            layers += [TwinLayerNorm(members[0].out_features), nn.SiLU()] if smooth else [nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.head = TwinLinear(head)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Logits of both members.

        Args:
            obs: [B, obs_dim] float32.
            action: [B, action_dim] float32 in [-1, 1].

        Returns:
            [2, B, atoms] float32.
        """
        x = torch.cat((obs, action), dim=-1).expand(MEMBERS, -1, -1)
        logits: Tensor = self.head(self.layers(x))
        return logits.float()

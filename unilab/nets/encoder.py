"""What only critics see, squeezed into a few numbers for the actor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from unilab.nets.mlp import linear


class Encoder(nn.Module):
    """MLP with layer normalisation and SiLU after each hidden layer and tanh at its end.

    Args:
        dim: width of the (normalised) privileged vector.
        widths: of the hidden layers and, last, of the latent.
        generator: source of the initial weights.

    Source: the environment factor encoder of RMA, Kumar et al. 2021, arXiv:2107.04034, as used in HORA, Qi et al. 2022,
    arXiv:2210.04887.
    """

    def __init__(self, dim: int, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise((dim, *widths)):
            layers += [linear(fan_in, fan_out, generator), nn.LayerNorm(fan_out), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-2])

    def forward(self, privileged: Tensor) -> Tensor:
        """Latent of [B, dim] float32: [B, widths[-1]] float32 in [-1, 1]."""
        latent: Tensor = self.net(privileged).float().tanh()
        return latent


class EncodingActor(nn.Module):
    """An actor that sees obs and the latent of a privileged vector; called as the actor that it holds.

    Its input is obs and, behind it, the privileged vector: [B, obs_dim + dim] float32, normalised.

    Args:
        obs_dim: width of obs.
        encoder: of the rest.
        actor: for obs and latent side by side.
    """

    def __init__(self, obs_dim: int, encoder: Encoder, actor: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.actor = actor
        self._obs_dim = obs_dim

    def forward(self, seen: Tensor) -> Any:
        """What the actor explores with."""
        return self.actor(self._encoded(seen))

    def learn(self, seen: Tensor) -> Any:
        """The same by the batch's own statistics, where the actor has such."""
        return self.actor.learn(self._encoded(seen))

    def mode(self, seen: Tensor) -> Tensor:
        """The deterministic action, [B, action_dim] float32 in [-1, 1]."""
        action: Tensor = self.actor.mode(self._encoded(seen))
        return action

    def _encoded(self, seen: Tensor) -> Tensor:
        return torch.cat((seen[:, : self._obs_dim], self.encoder(seen[:, self._obs_dim :])), dim=-1)

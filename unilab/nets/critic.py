"""Twin critics as one batched module: half the calls of two networks, the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm as unscaled_layer_norm

from unilab.nets.mlp import mlp

MEMBERS = 2


class TwinCritic(nn.Module):
    """Two Q-networks with separate weights, evaluated together.

    Args:
        obs_dim: width of the (normalised) observation that the critics see.
        action_dim: width of the action.
        hidden: widths of the hidden layers.
        generator: source of the initial weights; member by member, as two separate networks would draw.
        layer_norm: normalise each hidden layer before its ReLU.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        members = [mlp((obs_dim + action_dim, *hidden, 1), generator) for _ in range(MEMBERS)]
        *inner, head = zip(*([m for m in net if isinstance(m, nn.Linear)] for net in members), strict=True)
        layers: list[TwinLinear | TwinLayerNorm | _ReLU] = []
        for group in inner:
            layers.append(TwinLinear(group))
            if layer_norm:
                layers.append(TwinLayerNorm(group[0].out_features))
            layers.append(_ReLU())
        self.layers = nn.ModuleList(layers)
        self.head = TwinHead(head)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Values of both members.

        Args:
            obs: [B, obs_dim] float32.
            action: [B, action_dim] float32 in [-1, 1].

        Returns:
            [2, B] float32.
        """
        x = torch.cat((obs, action), dim=-1).expand(MEMBERS, -1, -1)
        for layer in self.layers:
            x = layer(x)
        values: Tensor = self.head(x)
        return values

    def first(self, obs: Tensor, action: Tensor) -> Tensor:
        """Values of member 0 alone, [B] float32; arguments as for ``forward``."""
        x = torch.cat((obs, action), dim=-1)
        for layer in self.layers:
            x = layer.first(x)  # type: ignore[operator]
        return self.head.first(x)


class TwinLinear(nn.Module):
    """A linear layer per member: weight [2, in, out], bias [2, 1, out]."""

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([m.weight.detach().T for m in members]).contiguous())
        self.bias = nn.Parameter(torch.stack([m.bias.detach()[None] for m in members]))

    def forward(self, x: Tensor) -> Tensor:
        """[2, B, in] to [2, B, out]."""
        return torch.baddbmm(self.bias, x, self.weight)

    def first(self, x: Tensor) -> Tensor:
        """Member 0 alone: [B, in] to [B, out]."""
        return torch.addmm(self.bias[0], x, self.weight[0])


class TwinHead(nn.Module):
    """A linear layer with one output per member: weight [2, 1, in], bias [2, 1].

    As a product and a sum, because a batched matrix product with one column takes six times as long on a CPU.
    """

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([m.weight.detach() for m in members]))
        self.bias = nn.Parameter(torch.stack([m.bias.detach() for m in members]))

    def forward(self, x: Tensor) -> Tensor:
        """[2, B, in] to [2, B]."""
        return (x * self.weight).sum(-1) + self.bias

    def first(self, x: Tensor) -> Tensor:
        """Member 0 alone: [B, in] to [B]."""
        return (x * self.weight[0]).sum(-1) + self.bias[0]


class TwinLayerNorm(nn.Module):
    """Layer normalisation with a scale and a shift per member: [2, 1, width] each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(MEMBERS, 1, width))
        self.bias = nn.Parameter(torch.zeros(MEMBERS, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """[2, B, width] to [2, B, width]."""
        return torch.addcmul(self.bias, unscaled_layer_norm(x, x.shape[-1:]), self.weight)

    def first(self, x: Tensor) -> Tensor:
        """Member 0 alone: [B, width] to [B, width]."""
        return torch.addcmul(self.bias[0], unscaled_layer_norm(x, x.shape[-1:]), self.weight[0])


class _ReLU(nn.Module):
    """ReLU in place, the same for one member and for both."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu_()

    def first(self, x: Tensor) -> Tensor:
        return x.relu_()

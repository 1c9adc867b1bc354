"""Residual blocks whose every layer keeps its length: what FlashSAC's actor and critics are made of.

``lead`` is () for one net, with inputs [N, in], and (2,) for twins, with inputs [2, N, in].

Source: FlashSAC, the norm-controlled inverted-residual network; SimbaV2 (Lee et al. 2025, arXiv:2502.15280) for the
projection of weights after each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from unilab.errors import ConfigError
from unilab.nets.batch_norm import BatchRenorm

EXPANSION = 4  # inner over outer width of a block
_MOMENTUM, _EPSILON = 0.99, 1e-5


class UnitLinear(nn.Module):
    """A product with a weight [*lead, in, out] whose columns have length 1; orthogonal to begin with."""

    def __init__(self, lead: tuple[int, ...], fan_in: int, fan_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*lead, fan_in, fan_out))
        for member in self.weight.detach().view(-1, fan_in, fan_out):
            nn.init.orthogonal_(member, generator=generator)
        self.project()

    def forward(self, x: Tensor) -> Tensor:
        """[*lead, N, in] to [*lead, N, out]."""
        product: Tensor = x @ self.weight
        return product

    @torch.no_grad()
    def project(self) -> None:
        """Back to length 1."""
        self.weight.div_(torch.linalg.vector_norm(self.weight, dim=-2, keepdim=True).clamp(min=1e-8))


class UnitHead(nn.Module):
    """A ``UnitLinear`` with a free bias."""

    def __init__(self, lead: tuple[int, ...], fan_in: int, fan_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = UnitLinear(lead, fan_in, fan_out, generator)
        self.bias = nn.Parameter(torch.zeros(*lead, 1, fan_out))

    def forward(self, x: Tensor) -> Tensor:
        """[*lead, N, in] to [*lead, N, out] float32."""
        shifted: Tensor = self.linear(x).float() + self.bias
        return shifted


class UnitBody(nn.Module):
    """Features of an input: normalised, embedded, through residual blocks, scaled to a root mean square of 1.

    Args:
        lead: see the module's docstring.
        inputs: width of the input.
        widths: of the blocks, one each and all the same.
        generator: source of the initial weights.

    Raises:
        ConfigError: the blocks' widths differ.
    """

    def __init__(self, lead: tuple[int, ...], inputs: int, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        if len(set(widths)) > 1:
            raise ConfigError(f"hidden={tuple(widths)} must be one width for all residual blocks, a number for each")
        width = widths[0]
        self.input_norm = _norm(lead, inputs)
        self.embedding = UnitLinear(lead, inputs, width, generator)
        self.blocks = nn.ModuleList(_Block(lead, width, generator) for _ in widths)
        self.scale = nn.Parameter(torch.ones(*lead, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """[*lead, N, inputs] to [*lead, N, width] float32, by the running statistics."""
        x = self.embedding(self.input_norm(x))
        for block in self.blocks:
            x = block(x)
        return self._scaled(x)

    def learn(self, x: Tensor) -> Tensor:
        """The same by the batch's own statistics, which move the running ones."""
        x = self.embedding(self.input_norm.learn(x))
        for block in self.blocks:
            x = block.learn(x)  # type: ignore[operator]
        return self._scaled(x)

    def _scaled(self, x: Tensor) -> Tensor:
        x = x.float()
        scaled: Tensor = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale
        return scaled


class _Block(nn.Module):
    """x + what two layers with batch normalisation make of it, the inner one wider.

    What the second product takes is rounded for it before the ReLU: the same values, and a gradient reads half as much.
    """

    def __init__(self, lead: tuple[int, ...], width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.widen = UnitLinear(lead, width, EXPANSION * width, generator)
        self.inner_norm = _norm(lead, EXPANSION * width)
        self.narrow = UnitLinear(lead, EXPANSION * width, width, generator)
        self.outer_norm = _norm(lead, width)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.widen(x)
        inner = self.inner_norm(wide).to(wide.dtype).relu()
        y: Tensor = x + self.outer_norm(self.narrow(inner)).relu()
        return y

    def learn(self, x: Tensor) -> Tensor:
        """By the batch's own statistics."""
        wide = self.widen(x)
        inner = self.inner_norm.learn(wide).to(wide.dtype).relu()
        return x + self.outer_norm.learn(self.narrow(inner)).relu()


def _norm(lead: tuple[int, ...], width: int) -> BatchRenorm:
    return BatchRenorm((*lead, 1, width), momentum=_MOMENTUM, warmup=None, epsilon=_EPSILON)


@torch.no_grad()
def project(net: nn.Module) -> None:
    """Give every layer of a net its length back, after an optimiser's step.

    A linear layer's columns have length 1. Scale and shift of a batch normalisation of d features together, and the
    scale of the features, have length sqrt(d).
    """
    for layer in net.modules():
        if isinstance(layer, UnitLinear):
            layer.project()
        elif isinstance(layer, BatchRenorm):
            squares = layer.weight.square() + layer.bias.square()
            factor = _to_root(squares)
            layer.weight.mul_(factor)
            layer.bias.mul_(factor)
        elif isinstance(layer, UnitBody):
            layer.scale.mul_(_to_root(layer.scale.square()))


def _to_root(squares: Tensor) -> Tensor:
    return sqrt(squares.shape[-1]) * torch.rsqrt(squares.sum(-1, keepdim=True) + 1e-8)

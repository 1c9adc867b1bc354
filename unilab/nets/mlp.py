"""Plain multilayer perceptrons, initialised from a generator of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


def mlp(widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, none after the last.

    Args:
        widths: input, hidden and output widths; two at least.
        generator: CPU generator that the initial weights are drawn from, layer by layer.

    Returns:
        A module on the CPU, [B, widths[0]] -> [B, widths[-1]] float32.
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        # In place is safe behind a linear layer, whose backward needs its input only.
        layers += [linear(fan_in, fan_out, generator), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


def linear(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with torch's default initial values, but from ``generator``.

    ``nn.Linear`` draws from the global generator, which belongs to whoever calls us. Its kaiming_uniform with
    a = sqrt(5) is uniform within 1 / sqrt(fan_in), for weight and bias alike.
    """
    # Not on the meta device: to_empty imports sympy, which takes half a second in every process.
    with torch.random.fork_rng(devices=()):
        layer = nn.Linear(fan_in, fan_out)
    bound = fan_in**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer

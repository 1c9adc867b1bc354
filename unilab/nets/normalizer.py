"""Running observation normalisation, and its identity.

Two implementations behind one set of calls, so that nothing asks at run time whether to normalise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

EPSILON = 1e-2  # added to the standard deviation, here and nowhere else


class RunningNorm(nn.Module):
    """(x - mean) / (std + epsilon) over every row ever given to ``update``; the identity before the first.

    The statistics are float64, merged chunk by chunk, so the result depends neither on how rows were cut into
    chunks nor on their order (up to float64 rounding). ``shift`` and ``scale`` are what ``forward`` reads, in
    float32. Everything changes strictly in place: the buffers are views of one published block.

    Args:
        dim: width of a row.

    Source: Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance"; the epsilon of
    1e-2 on the standard deviation as in RSL-RL and FastTD3, it bounds what a constant column can amplify.
    """

    count: Tensor  # [] int64, rows
    mean: Tensor  # [dim] float64
    m2: Tensor  # [dim] float64, sum of squared deviations from the mean
    shift: Tensor  # [dim] float32, the mean
    scale: Tensor  # [dim] float32, 1 / (std + epsilon)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise [..., dim] float32."""
        return (x - self.shift) * self.scale

    @torch.no_grad()
    def update(self, rows: Tensor) -> None:
        """Merge new rows, each to be given exactly once.

        Args:
            rows: [n, dim] float32 on any device; n may be 0.
        """
        n = len(rows)
        if n == 0:
            return
        x = rows.to(self.mean.device).double()
        chunk_mean = x.mean(0)
        delta = chunk_mean - self.mean
        # A quotient of integer tensors would be float32.
        total = (self.count + n).double()
        self.m2.add_((x - chunk_mean).square().sum(0) + delta.square() * (self.count * (n / total)))
        self.mean.add_(delta * (n / total))
        self.count.add_(n)
        self.shift.copy_(self.mean)
        self.scale.copy_(1.0 / ((self.m2 / total).sqrt() + EPSILON))


class NoNorm(nn.Module):
    """The identity, without state."""

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` itself."""
        return x

    def update(self, rows: Tensor) -> None:
        """Ignore the rows."""


def make_norm(dim: int, *, enabled: bool) -> RunningNorm | NoNorm:
    """A normaliser for rows of ``dim`` values, or the identity."""
    return RunningNorm(dim) if enabled else NoNorm()

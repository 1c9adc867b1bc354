"""Batch (re)normalisation, with both of its faces as calls of their own: nothing asks for a training mode."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

R_MAX = 3.0
D_MAX = 5.0


class BatchRenorm(nn.Module):
    """Normalises each feature over the rows of a batch, then scales and shifts it.

    For the first ``warmup`` batches this is plain batch normalisation. From then on the batch's statistics are
    corrected towards the running ones, within ``R_MAX`` and ``D_MAX``, so that both calls compute nearly the same;
    the correction takes no part in the gradient. Statistics are float32 and change strictly in place.

    Args:
        shape: of the parameters: [1, width] for inputs [N, width], [2, 1, width] for inputs [2, N, width].
        momentum: share of the running statistics that stays at each batch, in [0, 1).
        warmup: batches without correction; None: there is never any.
        epsilon: added to the variance.

    Source: Ioffe 2017, arXiv:1702.03275, algorithm 1; the switch after a warm-up as in CrossQ, arXiv:1902.05605.
    """

    mean: Tensor  # running, as ``shape``
    var: Tensor  # running, biased
    batches: Tensor  # [] int64

    def __init__(self, shape: tuple[int, ...], *, momentum: float, warmup: int | None, epsilon: float = 1e-3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self._share = 1.0 - momentum
        self._warmup = warmup
        self._epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise [..., N, width] by the running statistics; float32."""
        scale, mean = _once(self.weight * torch.rsqrt(self.var + self._epsilon), self.mean)
        return torch.addcmul(self.bias, x.float() - mean, scale)

    def learn(self, x: Tensor) -> Tensor:
        """Normalise [..., N, width] by its own statistics and move the running ones; float32."""
        x = x.float()
        # Seen from the first row no mean is beyond sqrt(N) standard deviations, so that neither the difference of
        # squares nor the mean in the shift is rounding noise, however large the mean is.
        first = x[..., :1, :].detach()
        x = x - first
        offset, var = _mean_var(x)
        mean = first + offset
        r, d = self._correction(mean.detach(), var.detach())
        scale = self.weight * torch.rsqrt(var + self._epsilon) * r
        shift = torch.addcmul(self.bias, self.weight, d) - offset * scale
        with torch.no_grad():
            self.mean.lerp_(mean, self._share)
            self.var.lerp_(var, self._share)
            self.batches.add_(1)
        scale, shift = _once(scale, shift)
        return torch.addcmul(shift, x, scale)

    def _correction(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and shift from the batch's standard scores to the running ones; 1 and 0 during the warm-up."""
        if self._warmup is None:
            return torch.ones_like(mean), torch.zeros_like(mean)
        std = torch.sqrt(self.var + self._epsilon)
        r = (torch.sqrt(var + self._epsilon) / std).clamp(1.0 / R_MAX, R_MAX)
        d = ((mean - self.mean) / std).clamp(-D_MAX, D_MAX)
        warm = self.batches >= self._warmup
        return torch.where(warm, r, 1.0), torch.where(warm, d, 0.0)


def _mean_var(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of [..., N, width] over N, in one pass: right where the mean is not far from 0."""
    share = 1.0 / x.shape[-2]
    total, squares = _once(x.sum(-2, keepdim=True), x.square().sum(-2, keepdim=True))
    mean = total * share
    return mean, (squares * share - mean.square()).clamp(min=0.0)


def _once(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both, kept in memory: a compiler would work out a feature's value, and its gradient, again for every row."""
    if not torch.compiler.is_compiling():
        return one, other
    one, other = torch.stack((one, other)).unbind()
    return one, other


class NormStack(nn.Module):
    """Hidden layers with normalisation of the input and of what each ReLU gives.

    Args:
        linears: the layers, in order.
        norms: one for the input, then one a layer.
    """

    def __init__(self, linears: Iterable[nn.Module], norms: Iterable[BatchRenorm]) -> None:
        super().__init__()
        self.linears = nn.ModuleList(linears)
        first, *others = norms
        self.first = first
        self.norms = nn.ModuleList(others)

    def forward(self, x: Tensor) -> Tensor:
        """Features by the running statistics."""
        x = self.first(x)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = norm(linear(x).relu())
        return x

    def learn(self, x: Tensor) -> Tensor:
        """Features by the batch's own statistics, which move the running ones."""
        x = self.first.learn(x)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = norm.learn(linear(x).relu())  # type: ignore[operator]
        return x

"""The tanh-squashed Gaussian, with a log-probability that saturation cannot spoil."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

_CONSTANT = 0.5 * math.log(2.0 * math.pi) + 2.0 * math.log(2.0)  # per action dimension


def squashed_action(mean: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """Sample ``tanh(mean + std * noise)``; all [..., A] float32, the result within [-1, 1]."""
    return torch.addcmul(mean, log_std.exp(), noise).tanh_()


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Reparametrised sample and its log-probability.

    The density of a = tanh(u) is N(u; mean, std) / (1 - a^2), and log(1 - tanh(u)^2) is computed as
    2 (log 2 - u - softplus(-2 u)): exact where tanh has rounded to 1, where log(1 - a^2 + eps) is off by
    what eps happens to be.

    Args:
        mean: [..., A] float32.
        log_std: [..., A] float32, clamped by the actor.
        noise: [..., A] float32, standard normal.

    Returns:
        action [..., A] in [-1, 1] and log-probability [...], summed over the A dimensions, both float32 and
        differentiable in ``mean`` and ``log_std``.

    Source: Haarnoja et al. 2018, arXiv:1801.01290, appendix C; the softplus form as in TensorFlow
    Probability's Tanh bijector.
    """
    u = torch.addcmul(mean, log_std.exp(), noise)
    # -noise^2/2 - log std is the Gaussian part: (u - mean) / std is the noise itself.
    terms = 2.0 * (u + softplus(-2.0 * u)) - log_std - 0.5 * noise.square()
    return u.tanh(), terms.sum(-1) - _CONSTANT * mean.shape[-1]

"""Categorical critics: a return as probabilities on a fixed grid of atoms, rather than as one number.

Everything here is a pure function and float32. A probability vector is [..., K], one entry an atom.

Source: Bellemare et al. 2017, arXiv:1707.06887 (C51).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from unilab.algos.targets import TD_ERRORS
from unilab.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Support:
    """``count`` atoms, evenly from ``low`` to ``high``, in units of return."""

    low: float
    high: float
    count: int

    @property
    def step(self) -> float:
        """Distance of neighbours."""
        return (self.high - self.low) / (self.count - 1)

    def atoms(self, device: torch.device) -> Tensor:
        """[K] float32. From whole numbers, so that an atom at 0 is 0."""
        index = torch.arange(self.count, dtype=torch.float64, device=device)
        return (self.low + self.step * index).float()


def check_support(section: str, v_min: float, v_max: float, atoms: int) -> None:
    """Refuse options that make no support.

    Raises:
        ConfigError: names the option.
    """
    if atoms < 2:
        raise ConfigError(f"{section}.atoms={atoms} cannot work; it must be 2 or more")
    if not (math.isfinite(v_min) and math.isfinite(v_max) and v_min < v_max):
        raise ConfigError(f"{section}.v_min={v_min} and v_max={v_max} are no range; v_min must be below v_max")


def expectation(probabilities: Tensor, support: Support) -> Tensor:
    """Mean return, [..., K] -> [...] float32, differentiable."""
    return (probabilities * support.atoms(probabilities.device)).sum(-1)


def project(probabilities: Tensor, reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    """The distribution of ``reward + discount * z``, put back on the atoms.

    Mass between two atoms is shared by its distance from them, mass beyond the ends goes to the outermost atom. So
    the mean is kept but for what is cut at the ends, and mass that lands on an atom stays there whole.

    Args:
        probabilities: [..., B, K] float32, of z.
        reward: [B] float32, or [..., B]; an entropy bonus included.
        discount: [B] float32 within [0, 1]: gamma to the number of steps, 0 where the episode has terminated.
        support: the atoms.

    Returns:
        [..., B, K] float32.
    """
    position = _positions(reward, discount, support).expand_as(probabilities)
    # A scatter takes a tenth of the dense form on a CPU (benchmarks/bench_projection.py), where a row belongs to one
    # thread. On a GPU its additions come in any order: a run would not repeat itself to the last bit.
    spread = _scattered if probabilities.device.type == "cpu" else _dense
    return spread(probabilities, position)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of each row's prediction, [..., K] and [..., K] -> [...] float32, differentiable in ``logits``.

    Args:
        logits: any dtype; taken to float32 first.
        target: probabilities.
    """
    return -(target * log_softmax(logits.float(), -1)).sum(-1)


def divergences(losses: Tensor, target: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """Where rows have weights, their ``TD_ERRORS``: KL(target | prediction), mean over both critics.

    The cross entropy that is descended, less what no prediction can get rid of, the target's own entropy: returns that
    are random by themselves do not keep a row in demand. The difference of both means would miss wrong shapes.

    Args:
        losses: [2, B] cross entropies, nats.
        target: [B, K] or [2, B, K] probabilities.
        weights: [B], or None.

    Source: Hessel et al. 2018, arXiv:1710.02298 (Rainbow: priorities by the KL loss).
    """
    if weights is None:
        return {}
    # Below 0 is rounding.
    return {TD_ERRORS: (losses.detach() - torch.special.entr(target).sum(-1)).clamp(min=0.0).mean(0)}


def lower_mean(probabilities: Tensor, support: Support) -> Tensor:
    """Row by row the distribution of the critic that expects less; [2, B, K] -> [B, K].

    Clipped double Q-learning for distributions: not the minimum of every atom, which is no distribution.

    Source: Seo et al. 2025, arXiv:2505.22642 (FastTD3).
    """
    first, second = probabilities.unbind()
    expected = expectation(probabilities, support)
    return torch.where((expected[0] <= expected[1])[:, None], first, second)


def soft_reward(reward: Tensor, discount: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """Reward with the next action's entropy bonus in it: ``reward - discount * alpha * log_prob``, [B] float32.

    Args:
        reward: [B].
        discount: [B], 0 where there is no next action.
        log_prob: [B], of the next action.
        alpha: [], temperature.
    """
    return reward - discount * alpha * log_prob


def at_the_ends(probabilities: Tensor) -> Tensor:
    """Mean mass on the two outermost atoms, [] float32: what a support that is too narrow gathers there."""
    return (probabilities[..., 0] + probabilities[..., -1]).mean()


def _positions(reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    """Where each atom lands, counted in atoms from the lowest: [..., B, K] float32 within [0, K - 1]."""
    # A row's offset in float64: (0.2 + 10) / 0.2 is 51.000004 in float32, and mass would leak to the next atom.
    offset = (reward.double() + (discount.double() - 1.0) * support.low) / support.step
    index = torch.arange(support.count, device=reward.device)
    return (offset.float()[..., None] + discount[..., None] * index).clamp(0.0, support.count - 1.0)


def _scattered(probabilities: Tensor, position: Tensor) -> Tensor:
    """Add what each atom carries to the two atoms next to where it lands."""
    last = position.shape[-1] - 2  # the last but one, so that there is always a next one
    below = position.floor().clamp(max=last)
    above = position - below  # share of the upper neighbour
    # Within a row: exact in a batch of any size. The clamp is for a NaN, which is to become a loss and no index.
    index = below.long().clamp(0, last)
    spread = torch.zeros_like(probabilities)
    spread.scatter_add_(-1, index, probabilities * (1.0 - above))
    return spread.scatter_add_(-1, index + 1, probabilities * above)


def _dense(probabilities: Tensor, position: Tensor) -> Tensor:
    """Sum over all pairs of atoms; [..., B, K, K] values, which a compiler keeps out of memory."""
    index = torch.arange(position.shape[-1], device=position.device)
    share = (1.0 - (position[..., None, :] - index[:, None]).abs()).clamp(min=0.0)
    return (probabilities[..., None, :] * share).sum(-1)

"""What every off-policy update shares: TD targets, twin losses, target smoothing, Polyak averaging.

Rows that were not drawn uniformly carry weights (``Minibatch.weights``). Each row's loss of each critic is multiplied
by the row's weight before the mean over the batch, which still divides by B. Actor and temperature take rows as they
come, and the statistics of a batch normalisation see every row once, whatever its weight: they say how the activations
of the rows that are there are spread, and estimate no loss.

With weights an update also tells how wrong it was about each row, before its step, as ``TD_ERRORS``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

TD_ERRORS = "td_errors"
"""[B] float32, 0 or more: what an update tells of each row beside its scalars; see ``Learner.td_errors``."""


def td_target(reward: Tensor, terminated: Tensor, next_value: Tensor, discount: Tensor | float) -> Tensor:
    """TD target of one env step or several; truncation still bootstraps.

    Truncation is not an argument: a row that is cut off counts like any other, and one that is terminated as
    well has ended. The entropy of a soft value counts where it bootstraps and nowhere else: of the actions in
    between, which an older policy chose, only the rewards are stored. Stable-Baselines3 does the same.

    Args:
        reward: [B] float32, env units, unscaled; with n-step returns their discounted sum, as it was stored.
        terminated: [B] bool, end of the MDP, never a time limit.
        next_value: [B] float32, minimum over target critics, entropy included.
        discount: of ``next_value``, in [0, 1]: ``Minibatch.discount``, gamma^m after m env steps.

    Returns:
        [B] float32 without gradient.

    Source: Pardo et al. 2018, arXiv:1712.00378 (bootstrapping at time limits).
    """
    return (reward + discount * ~terminated * next_value).detach()


def twin_loss(q: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Half the sum of both critics' mean squared errors; q [2, B], target and weights [B] float32; returns []."""
    if weights is None:
        return mse_loss(q, target.expand_as(q))
    return weighted((q.float() - target).square(), weights).mean()


def weighted(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Each row's loss times the row's weight; [..., B] and [B] float32, or None for 1 each."""
    return losses if weights is None else losses * weights


def absolute_errors(q: Tensor, target: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """Where rows have weights, their ``TD_ERRORS``: |q - target|, mean over both critics; q [2, B], target [B]."""
    return {} if weights is None else {TD_ERRORS: (q.detach() - target).abs().mean(0)}


def smaller(q: Tensor) -> Tensor:
    """Minimum over the two critics, differentiable; [2, B] -> [B]. Source: Fujimoto et al. 2018."""
    first, second = q.unbind()
    return torch.minimum(first, second)


def smoothed_action(action: Tensor, noise: Tensor, *, scale: float, clip: float) -> Tensor:
    """Target action with clipped noise, in the normalised action scale.

    Args:
        action: [B, A] float32 in [-1, 1], of the target actor.
        noise: [B, A] float32, standard normal.
        scale: standard deviation of the smoothing noise.
        clip: largest change per dimension.

    Returns:
        [B, A] float32 in [-1, 1].

    Source: Fujimoto et al. 2018, arXiv:1802.09477, section 5.3.
    """
    return (action + (noise * scale).clamp(-clip, clip)).clamp(-1.0, 1.0)


@torch.no_grad()
def polyak(targets: Sequence[Tensor], online: Sequence[Tensor], tau: float) -> None:
    """Move each target in place by the share ``tau`` towards its online tensor."""
    torch._foreach_lerp_(list(targets), list(online), tau)

"""Numbers of several seeds as one, with what they say about other seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_RESAMPLES = 10_000
_BATCH = 1_000  # resamples at a time: those of a long curve would fill the memory


def interquartile_mean(scores: Floats) -> Floats:
    """Mean without the lowest and the highest quarter, rounded down: of five seeds the middle three, of three all.

    Args:
        scores: [n, ...], one row a seed.

    Returns:
        [...].

    Source: Agarwal et al. 2021, arXiv:2108.13264.
    """
    cut = len(scores) // 4
    middle: Floats = np.sort(scores, axis=0)[cut : len(scores) - cut].mean(axis=0)
    return middle


def mean(scores: Floats) -> Floats:
    """Mean over the seeds, [n, ...] to [...]."""
    averaged: Floats = scores.mean(axis=0)
    return averaged


def interval(scores: Floats, statistic: Callable[[Floats], Floats]) -> tuple[Floats, Floats] | None:
    """95 % bootstrap interval of a statistic: the middle of its values on 10,000 draws of n seeds with replacement.

    The same scores always give the same interval. With few seeds it is too narrow, as every bootstrap's.

    Args:
        scores: [n, ...], one row a seed.
        statistic: [n, ...] to [...].

    Returns:
        Lower and upper end, [...] each; None for one seed, which says nothing about others.
    """
    if len(scores) < 2:
        return None
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(scores), (_RESAMPLES, len(scores)))
    values = np.concatenate(
        [statistic(np.moveaxis(scores[part], 1, 0)) for part in np.split(draws, _RESAMPLES // _BATCH)]
    )
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return low, high

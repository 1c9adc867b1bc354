"""Several curves as one: the mean over seeds, and a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unilab.aggregate import Floats, interval, mean
from unilab.plot.curve import Curve


class Band(NamedTuple):
    """A mean over seeds with its surroundings, [points] each; where there is one seed all are equal."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def band(curves: Sequence[Curve], axis: str, kind: str) -> Band | None:
    """The mean where all seeds have values, from the latest start to the earliest end; None where that is nowhere.

    Args:
        curves: of the seeds.
        axis: ``env_steps`` or ``seconds``; between two points of a seed its return is interpolated.
        kind: ``range``, ``std`` or ``interval`` (of the mean, 95 %).
    """
    xs = [getattr(curve, axis) for curve in curves]
    start, stop = common(curves, axis)
    if start > stop:
        return None
    points = np.unique(np.concatenate(xs))
    x = points[(start <= points) & (points <= stop)]
    values = np.array([np.interp(x, own, curve.returns) for own, curve in zip(xs, curves, strict=True)])
    middle = values.mean(axis=0)
    if kind == "std":
        return Band(x, middle, middle - values.std(axis=0), middle + values.std(axis=0))
    ends = interval(values, mean) if kind == "interval" else None
    low, high = ends or (values.min(axis=0), values.max(axis=0))
    return Band(x, middle, low, high)


def common(curves: Sequence[Curve], axis: str) -> tuple[float, float]:
    """Latest start and earliest end of the seeds on an axis; nothing is common where the start lies behind the end."""
    xs = [getattr(curve, axis) for curve in curves]
    return max(float(x[0]) for x in xs), min(float(x[-1]) for x in xs)

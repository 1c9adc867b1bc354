"""What is kept of a gymnasium ``info``: named scalars, the names fixed when the env is probed.

A dict per env and step with anything in it is what envs return; a fixed set of floats is what can cross a
process border and a log without growing. A name that is missing later, or no longer a number, is NaN for
that env and step, and whoever averages ignores NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.errors import EnvError

SUCCESS = ("is_success", "success")
MAX_METRICS = 32

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def metric_names(reset_info: Any, step_info: Any) -> tuple[str, ...]:
    """Names of the metrics, sorted: keys of the first step's info whose values are real scalars.

    Scalars are Python and numpy numbers and 0-d arrays. ``is_success`` and ``success`` count wherever they
    appear. Of more than 32 names the success flags are kept, then the first in alphabetical order.
    """
    found = {key for key, value in _items(step_info) if isinstance(key, str) and _is_scalar(value)}
    found |= {key for key in SUCCESS for info in (reset_info, step_info) if key in dict(_items(info))}
    kept = sorted(found, key=lambda name: (name not in SUCCESS, name))[:MAX_METRICS]
    return tuple(sorted(kept))


class MetricReader:
    """Reads the named scalars of one info into a row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        # One C call for all names; a single name would come back bare.
        self._get = itemgetter(*names) if len(names) > 1 else None

    def read(self, row: NDArray[np.float64], info: Any) -> None:
        """Fill ``row`` [len(names)]; NaN where the info has no scalar of that name."""
        if self._get is not None:
            try:
                row[:] = self._get(info)
                return
            except (KeyError, TypeError, ValueError, OverflowError):
                pass  # something is missing or odd: name by name below
        values = dict(_items(info))
        for k, name in enumerate(self.names):
            row[k] = metric_value(values.get(name))

    def columns(self, rows: NDArray[np.float64]) -> dict[str, NDArray[np.float32]]:
        """[n, len(names)] as one [n] float32 array per name."""
        if not self.names:
            return {}
        return dict(zip(self.names, rows.T.astype(np.float32), strict=True))


def metric_value(value: Any) -> float:
    """The number in ``value``, NaN where it is none; an array of one element counts."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    try:
        return float(value) if isinstance(value, _NUMBERS) else math.nan
    except OverflowError:  # an int beyond float64
        return math.nan


def scalar(name: str, value: Any) -> float:
    """One number out of whatever people return: a number, True, np.array([1.0]), [1.0], a tensor.

    Raises:
        EnvError: several numbers, or none.
    """
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        if array.size != 1:
            raise EnvError(f"the {name} must be one number, got shape {array.shape}: {value!r}")
        value = array.reshape(-1)[0]
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise EnvError(f"the {name} must be one number, got {value!r}") from error


def _items(info: Any) -> list[tuple[Any, Any]]:
    return list(info.items()) if isinstance(info, Mapping) else []


def _is_scalar(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return isinstance(value, _NUMBERS)

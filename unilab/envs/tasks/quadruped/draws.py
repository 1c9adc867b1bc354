"""Random numbers of all envs at once, without a generator call per env.

A draw is a hash of (the env's key, a tick, a stream, a column), so that it depends on nothing else: not on the number
of envs, not on the order of calls, and a saved key is all there is to save. Keys come from the envs' own generators, a
new one for each episode.

Source: the mixing function is the finalizer of SplitMix64 (Steele et al. 2014), applied twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOISE, COMMAND, NEXT_COMMAND, PUSH, NEXT_PUSH = range(5)
"""Streams: draws of different streams have nothing to do with one another."""

_TICK = np.uint64(0x9E3779B97F4A7C15)
_COLUMN = np.uint64(0xD1B54A32D192ED03)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = (np.uint64(bits) for bits in (30, 27, 31, 11))


def new_key(rng: Generator) -> int:
    """A key for one env's next episode."""
    return int(rng.integers(1 << 63))


def uniform(key: NDArray[np.int64], tick: NDArray[np.int64], stream: int, width: int) -> Array:
    """[k, width] in [0, 1), one row for each key [k] at its tick [k]."""
    column = np.arange(stream << 16, (stream << 16) + width, dtype=np.uint64)
    rows = _mix(key.view(np.uint64) + tick.astype(np.uint64) * _TICK)
    bits = _mix(rows[:, None] + (column + np.uint64(1)) * _COLUMN)
    return np.asarray((bits >> _11) * 2.0**-53, np.float64)


def between(low: Any, high: Any, draw: Array) -> Array:
    """Draws in [0, 1) to [low, high)."""
    return np.asarray(low + (high - low) * draw, np.float64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> _30)) * _MIX_1
    x = (x ^ (x >> _27)) * _MIX_2
    return x ^ (x >> _31)

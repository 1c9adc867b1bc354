"""Gather a tick's rows straight into a host slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import Ring
from unilab.replay.samplers import UniformSampler

AGE_SAMPLE = 8
"""Rows of a batch whose age is looked at: a few random rows of every tick are sample enough; each is a cache miss."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What lies in a host slot after a pack."""

    tick: int
    rows: int
    watermark: int  # cursor that the batch was drawn at
    versions: NDArray[np.int64]  # policy versions of the first rows, as a sample


def pack(ring: Ring, sampler: UniformSampler, out: NDArray[np.float32], *, tick: int, low: int, high: int) -> Packed:
    """Draw ``len(out)`` rows of [low, high) for ``tick`` and gather them into ``out`` [k, width]."""
    numbers = sampler.draw(tick, low, high, len(out))
    ring.gather(numbers, out)
    return Packed(tick, len(out), high, ring.versions_of(numbers[:AGE_SAMPLE]))

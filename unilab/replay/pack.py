"""Gather a tick's rows straight into a host slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import Ring
from unilab.replay.samplers import UniformSampler


@dataclass(frozen=True, slots=True)
class Packed:
    """What lies in a host slot after a pack."""

    tick: int
    rows: int
    watermark: int  # cursor that the batch was drawn at
    mean_version: float  # mean policy version of the rows; uniform random rows count as version 0


def pack(
    ring: Ring, sampler: UniformSampler, out: NDArray[np.float32], *, tick: int, low: int, high: int
) -> Packed:
    """Draw ``len(out)`` rows of [low, high) for ``tick`` and gather them into ``out`` [k, width]."""
    if not len(out):
        return Packed(tick=tick, rows=0, watermark=high, mean_version=float("nan"))
    versions = ring.gather(sampler.draw(tick, low, high, len(out)), out)
    return Packed(
        tick=tick, rows=len(out), watermark=high, mean_version=float(np.maximum(versions, 0).mean())
    )

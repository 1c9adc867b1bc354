"""Draw a tick's rows out of all ranges of the ring, and gather them straight into a host slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import Ring, gather_all
from unilab.replay.samplers import UniformSampler

AGE_SAMPLE = 8
"""Rows of a batch whose age is looked at: a few random rows of every tick are sample enough; each is a cache miss."""

Domain = Sequence[tuple[int, int]]
"""Rows [low, high) of each range that may be drawn."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What lies in a host slot after a pack."""

    tick: int
    rows: int
    watermark: int  # rows ever appended, of all ranges, when the batch was drawn
    versions: NDArray[np.int64]  # policy versions of the first rows, as a sample
    weights: NDArray[np.float32] | None = None  # [rows], what each row counts in the loss; None: 1 each


def pack(
    rings: Sequence[Ring], sampler: UniformSampler, out: NDArray[np.float32], *, tick: int, domain: Domain
) -> Packed:
    """Draw ``len(out)`` rows of the domain for ``tick``, each as likely as any other, into ``out`` [k, width].

    Args:
        rings: all of the run's, from ``open_rings``.
        sampler: of the run.
        out: receives the rows.
        tick: keys the draw.
        domain: [low, high) for each ring.
    """
    watermark = sum(high for _, high in domain)
    if len(rings) == 1:
        (ring,), ((low, high),) = rings, domain
        numbers = sampler.draw(tick, low, high, len(out))
        ring.gather(numbers, out)
        return Packed(tick, len(out), watermark, ring.versions_of(numbers[:AGE_SAMPLE]))
    owners, numbers = draw(sampler, tick, domain, len(out))
    versions = gather_all(rings, cells_of(rings, owners, numbers), out)
    return Packed(tick, len(out), watermark, versions[:AGE_SAMPLE])


def pack_own(
    ring: Ring, sampler: UniformSampler, out: NDArray[np.float32], *, tick: int, domain: Domain
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The part of ``pack`` whose rows lie in one of the rings: every collector packs its own rows, none waits.

    Returns:
        Which of the first ``AGE_SAMPLE`` rows of the batch are in this ring, and their policy versions.
    """
    owners, numbers = draw(sampler, tick, domain, len(out))
    places = np.flatnonzero(owners == ring.index)
    own = numbers[places]
    rows = np.empty((len(own), out.shape[1]), np.float32)
    ring.gather(own, rows)
    out[places] = rows
    sample = places[: np.searchsorted(places, AGE_SAMPLE)]
    return sample, ring.versions_of(own[: len(sample)])


def draw(sampler: UniformSampler, tick: int, domain: Domain, count: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Rows of the domain for a tick, whatever the ranges' fill: which ring, and the number there, [count] each."""
    lows = np.array([low for low, _ in domain])
    ends = np.cumsum([high - low for low, high in domain])
    places = sampler.draw(tick, 0, int(ends[-1]), count)
    owners = np.searchsorted(ends, places, side="right")
    starts = np.concatenate(([0], ends[:-1]))
    return owners, places - starts[owners] + lows[owners]


def cells_of(rings: Sequence[Ring], owners: NDArray[np.intp], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where rows lie in the rings' common memory."""
    capacities = np.array([ring.capacity for ring in rings])
    first_cells = np.array([ring.first_cell for ring in rings])
    cells: NDArray[np.int64] = first_cells[owners] + numbers % capacities[owners]
    return cells

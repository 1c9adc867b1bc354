"""Which rows a tick trains on."""

from __future__ import annotations

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray


class UniformSampler:
    """Uniform with replacement; the draw of a tick depends on (seed, tick) and its domain alone.

    Args:
        sequence: the run's "sample" stream.
    """

    def __init__(self, sequence: SeedSequence) -> None:
        self._entropy = sequence.entropy
        self._spawn_key = sequence.spawn_key

    def draw(self, tick: int, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Row numbers for a tick.

        Args:
            tick: keys the draw; no state is kept between ticks.
            low: first row of the domain.
            high: one past its last row.
            count: how many to draw.

        Returns:
            [count] int64 in [low, high).
        """
        sequence = SeedSequence(self._entropy, spawn_key=(*self._spawn_key, tick))
        return Generator(PCG64(sequence)).integers(low, high, size=count)

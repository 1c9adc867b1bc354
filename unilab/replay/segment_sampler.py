"""Segments: T steps in a row of one env, out of packed rows.

Each round of a collector appends one row per env, in order, to its range of the ring. So row r of a range is followed
by row r + n in the same env, with n envs, whatever cell they lie in; numbers are what is drawn here, and a ring
that wraps changes nothing. Every row from which T rows of its env are in the domain begins a segment, and each of
them is drawn as often.

A segment is T rows long and *valid* up to its end: the first row that terminated, that was cut off, or that does not
lead to the observation which the next row begins with. The row at the end is valid itself. The last rule is for what
breaks an env's course without a flag: a row that stands in for another (``repeat`` of ``Ring.append``), a collector in
the place of a dead one, envs that began anew when a run went on, rows of a run with another number of envs. A row that
stands in for another is a true transition; it begins a segment of one valid row. Only a break without a flag that leads
to the very same observation stays unseen.

Rows of n-step returns (``replay.n_step``) make no segments: each stands for several steps, and the next one begins
within them. Sum the rewards of a segment instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from unilab.replay.layout import RowLayout
from unilab.replay.samplers import UniformSampler


@dataclass(frozen=True, slots=True)
class Ends:
    """How far segments go."""

    valid: NDArray[np.bool_]  # [k, T]; the first row always, and none behind one that is not
    last: NDArray[np.int64]  # [k] position of the last valid row, 0 to T - 1
    terminated: NDArray[np.bool_]  # [k] that of the last valid row: do not bootstrap from its successor; else do


class SegmentSampler:
    """Uniform with replacement over the rows that begin a segment; depends on (seed, tick) and the domain alone.

    By priority instead: give ``Priorities`` rows within ``starts`` only, and the serials that it draws to ``rows``.

    Args:
        sequence: the run's "sample" stream.
        num_envs: rows of a round.
        length: T, rows of a segment.
    """

    def __init__(self, sequence: SeedSequence, num_envs: int, length: int) -> None:
        if num_envs < 1 or length < 1:
            raise ValueError(f"segments of {length} rows of {num_envs} envs cannot be drawn; both must be 1 or more")
        self._uniform = UniformSampler(sequence)
        self._steps = num_envs * np.arange(length)

    def starts(self, low: int, high: int) -> tuple[int, int]:
        """Rows [low, stop) that begin a segment within rows [low, high) of a range; none where stop is low."""
        return low, max(low, high - int(self._steps[-1]))

    def draw(self, tick: int, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Row numbers for a tick.

        Args:
            tick: keys the draw.
            low: first row of the domain.
            high: one past its last row.
            count: segments to draw.

        Returns:
            [count, T] int64 in [low, high).

        Raises:
            ValueError: the domain is shorter than a segment.
        """
        first, stop = self.starts(low, high)
        if first == stop:
            raise ValueError(f"rows [{low}, {high}) hold no segment; it takes {self._steps[-1] + 1} of them")
        return self.rows(self._uniform.draw(tick, first, stop, count))

    def rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row numbers [k, T] of the segments that begin with these rows, [k] int64."""
        numbers: NDArray[np.int64] = starts[:, None] + self._steps
        return numbers


def find_ends(rows: NDArray[np.float32], layout: RowLayout) -> Ends:
    """How far each segment goes.

    Args:
        rows: [k, T, width] float32, gathered by the numbers of a sampler.
        layout: of a row.

    Raises:
        ValueError: a row stands for several env steps.
    """
    if layout.n_step > 1:
        raise ValueError(f"rows of n_step={layout.n_step} overlap, no segment can be made of them; use n_step=1")
    columns = layout.columns
    terminated = rows[:, :, columns["terminated"].start] != 0
    truncated = rows[:, :, columns["truncated"].start] != 0
    leads_on = (rows[:, :-1, columns["next_obs"]] == rows[:, 1:, columns["obs"]]).all(-1)

    valid = np.ones(rows.shape[:2], np.bool_)
    np.logical_and.accumulate(leads_on & ~(terminated | truncated)[:, :-1], axis=1, out=valid[:, 1:])
    last = np.count_nonzero(valid, axis=1) - 1
    return Ends(valid, last, terminated[np.arange(len(rows)), last])

"""Sums of priorities, so that a cell is found by its share of the total.

A wide tree: 16 values of one level are one of the next, up to a top level of a few hundred. A binary tree of a million
cells has 20 levels, this one four, and numpy spends its time per call and per cache line, not per comparison. Beside
its sums each level keeps where each of the 16 begins, so that a descent compares and counts, and adds nothing up.

What a level holds is worked out anew from the level below, never by adding differences: no rounding gathers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FAN = 16  # 8, 32 and 64 were slower, for 256 and for 8192 targets in a million values
_TOP = 512
"""Most values of the top level: it is searched as a whole, and worked out anew for each search."""


class SumTree:
    """Values of 0 or more, and their running sums.

    Args:
        size: how many values; all 0 at first.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a tree of {size} values cannot be searched; it must be 1 or more")
        self._sums: list[NDArray[np.float64]] = []  # [blocks x FAN] a level, the lowest first: the values themselves
        self._starts: list[NDArray[np.float64]] = []  # [blocks, FAN] a level, see _refresh
        blocks = size
        while blocks > _TOP or not self._sums:
            blocks = -(-blocks // FAN)
            self._sums.append(np.zeros(blocks * FAN))
            self._starts.append(np.zeros((blocks, FAN)))
        self._top = np.zeros(blocks)
        self.values = self._sums[0][:size]
        """[size] float64; read only, ``set`` changes them."""
        self._parts: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def total(self) -> float:
        """Sum of all values."""
        return float(self._top_parts()[1][-1])

    def set(self, index: NDArray[np.int64], values: NDArray[np.float64] | float) -> None:
        """Change values; cheapest where ``index`` [n] is in order. None may be there twice."""
        self._sums[0][index] = values
        blocks = index
        for level in range(len(self._sums)):
            blocks = _runs(blocks // FAN)
            sums = self._refresh(level, blocks)
            above = self._sums[level + 1] if level + 1 < len(self._sums) else self._top
            above[blocks] = sums
        self._parts = None

    def find(self, targets: NDArray[np.float64]) -> NDArray[np.int64]:
        """Where the running sum passes each target: the first index up to which the values sum up to more.

        Args:
            targets: [k] within [0, total); fast where they are in order. One that rounding takes to the total
                finds the last value that is not 0.

        Returns:
            [k] int64, never of a value that is 0.

        Raises:
            ValueError: every value is 0.
        """
        if not self.total > 0.0:
            raise ValueError("every value is 0; there is nothing to find")
        ends, begins = self._top_parts()
        index = ends.searchsorted(targets, "right")
        rest = targets - begins.take(index)
        for starts in reversed(self._starts):
            begun = starts.take(index, 0) <= rest[:, None]
            # Each True is a byte of 1, so that eight of them are counted at once.
            eights = np.bitwise_count(begun.view(np.uint64))
            index = index * FAN + eights[:, 0] + eights[:, 1] - 1
            rest -= starts.reshape(-1).take(index)
        return index

    def _refresh(self, level: int, blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Work out where the values of these blocks begin; returns the sum of each."""
        ends = self._sums[level].reshape(-1, FAN).take(blocks, 0).cumsum(1)
        sums: NDArray[np.float64] = ends[:, -1]
        starts = np.zeros_like(ends)
        # Where a value begins that has nothing but zeros from there on, no target may ever get, rounded or not.
        starts[:, 1:] = np.where(ends[:, :-1] < ends[:, -1:], ends[:, :-1], np.inf)
        self._starts[level][blocks] = starts
        return sums

    def _top_parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the values of the top level end and begin; worked out once for all changes since it was last asked."""
        if self._parts is None:
            ends = self._top.cumsum()
            self._parts = np.where(ends < ends[-1], ends, np.inf), np.concatenate([[0.0], ends])
        return self._parts


def _runs(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Without repetitions of the value before: each value once where ``index`` is in order."""
    first = np.ones(len(index), np.bool_)
    np.not_equal(index[1:], index[:-1], out=first[1:])
    return index[first]

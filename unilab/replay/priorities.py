"""Prioritised replay: rows whose error was large are drawn more often, and count for less in return.

The learner owns the priorities and is the only one who changes them. A row is known by its cell and by its *serial*,
the number that it has in its range of the ring: cells are used again, serials are not. Errors come back after the
batch was drawn, and by then the cell may hold another row, whose priority must not change: an update whose serial is
not the cell's is rejected, row by row.

Draws are stratified: the total is cut into as many equal parts as there are rows to draw, and one target falls
into each part (Schaul et al. 2016, appendix B.2.1). Targets in order are three times as fast to find as others, but
rows in the order of their cells would give each minibatch of a tick, and each half of one, rows of one age. So they are
dealt out by steps of the golden ratio, from a random part on: any run of positions sees the whole ring, and each
position for itself gets each row with exactly the probability that its priority has in the total.

Source: Schaul et al. 2016, arXiv:1511.05952, algorithm 1 (proportional).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unilab.errors import ConfigError, NonFinite
from unilab.replay.sum_tree import SumTree

EPSILON = 1e-6  # what an error of 0 counts; in the errors' unit
UNUSED = -1  # serial of a cell that is not in the domain


@dataclass(frozen=True, slots=True, kw_only=True)
class PerConfig:
    """How rows are drawn."""

    sampler: Literal["uniform", "per"] = "uniform"
    """Every row alike, or by priority: the larger its last TD error the more often."""
    per_alpha: float = 0.6
    """How much the error says: the probability goes with its power alpha, in (0, 1]."""
    per_beta: float = 0.4
    """How much of the bias that comes with it the weights undo at the beginning, in [0, 1]; 1: all of it."""
    per_beta_final: float = 1.0
    """The same at the end of the run; in between it changes evenly with the ticks."""

    def __post_init__(self) -> None:
        _require("per_alpha", self.per_alpha, 0.0 < self.per_alpha <= 1.0, "above 0 and at most 1")
        for name in ("per_beta", "per_beta_final"):
            value = getattr(self, name)
            _require(name, value, 0.0 <= value <= 1.0, "within [0, 1]")
        if self.sampler == "uniform":
            for name, usual in (("per_alpha", 0.6), ("per_beta", 0.4), ("per_beta_final", 1.0)):
                value = getattr(self, name)
                _require(name, value, value == usual, "left alone with sampler=uniform, where it has no effect")

    def beta(self, progress: float) -> float:
        """Exponent of the weights when the share ``progress`` of the run's ticks is done."""
        return self.per_beta + (self.per_beta_final - self.per_beta) * min(max(progress, 0.0), 1.0)


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"replay.{name}={value!r} cannot work; it must be {rule}")


class Priorities:
    """One priority and one serial a cell; a pure function of the calls that were made.

    Args:
        capacity: cells, of all ranges of the ring together.
        alpha: see ``PerConfig``.
    """

    def __init__(self, capacity: int, alpha: float) -> None:
        self._alpha = alpha
        self._tree = SumTree(capacity)
        self._serials = np.full(capacity, UNUSED, np.int64)
        self._largest = 1.0
        self.rejected = 0
        """Errors that came too late, over the whole run: another row was in the cell, or none."""

    @staticmethod
    def required_bytes(capacity: int) -> int:
        """Memory of the learner's process that this many cells take, within a twentieth."""
        return int(capacity * (8 + 16 * 16 / 15))

    @property
    def priorities(self) -> NDArray[np.float64]:
        """[capacity] float64, read only; 0: not in the domain."""
        return self._tree.values

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return self._tree.total

    def add(self, cells: NDArray[np.int64], serials: NDArray[np.int64]) -> None:
        """Take rows into the domain, with the largest priority that there was so far: each is to be drawn soon.

        Args:
            cells: [n] int64, each once.
            serials: [n] int64, 0 or more, the numbers of the rows that lie there.

        Raises:
            ValueError: a cell holds this row or a later one already.
        """
        held = self._serials[cells]
        if (serials <= held).any():
            at = int(np.argmax(serials <= held))
            raise ValueError(f"row {serials[at]} cannot enter cell {cells[at]}, which holds row {held[at]}")
        self._serials[cells] = serials
        self._tree.set(cells, self._largest)

    def drop(self, cells: NDArray[np.int64]) -> None:
        """Take rows out of the domain, before they are overwritten; [n] int64 cells, in it or not, each once."""
        self._serials[cells] = UNUSED
        self._tree.set(cells, 0.0)

    def draw(
        self, uniforms: NDArray[np.float64], beta: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Draw k rows with probabilities in proportion to their priorities.

        Weights are (N p_i / total)^-beta over the largest of the batch, as Dopamine and Acme have them: N and total
        cancel. Over the largest of all rows instead, one row that is nearly never drawn would shrink every step.

        Args:
            uniforms: [k + 1] float64 in [0, 1): one for each part of the total, and the last for their order.
            beta: how much of the bias the weights undo, in [0, 1].

        Returns:
            Cells [k] int64, serials [k] int64 and weights [k] float32 in (0, 1].

        Raises:
            ValueError: there is no row in the domain.
        """
        count = len(uniforms) - 1
        parts = (np.arange(count) + uniforms[:-1]) * (self._tree.total / count)
        first = int(uniforms[-1] * count)
        cells = self._tree.find(parts).take(_dealt(count)[first : first + count])
        drawn = self._tree.values.take(cells)
        weights = (drawn.min() / drawn) ** beta
        return cells, self._serials.take(cells), weights.astype(np.float32)

    def update(self, cells: NDArray[np.int64], serials: NDArray[np.int64], td_errors: NDArray[np.floating]) -> int:
        """Set priorities to (|error| + EPSILON)^alpha where the rows that were drawn are still in their cells.

        Args:
            cells: [k] int64, as drawn.
            serials: [k] int64, as drawn.
            td_errors: [k], of these rows; of a row that is there twice the last one counts.

        Returns:
            How many were rejected.

        Raises:
            NonFinite: an error is NaN or infinite; nothing was changed.
        """
        finite = np.isfinite(td_errors)
        if not finite.all():
            at = int(np.argmin(finite))
            raise NonFinite(f"the TD error of row {serials[at]} (cell {cells[at]}) is {td_errors[at]}")
        held = self._serials.take(cells) == serials
        late = len(held) - int(np.count_nonzero(held))
        if late:
            cells, td_errors = cells[held], td_errors[held]
        self.rejected += late
        if len(cells):
            cells, last = _last_of_each(cells)
            values = (np.abs(td_errors[last], dtype=np.float64) + EPSILON) ** self._alpha
            self._largest = max(self._largest, float(values.max()))
            self._tree.set(cells, values)
        return late

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """All that decides future draws, as copies."""
        return {
            "priorities": self._tree.values.copy(),
            "serials": self._serials.copy(),
            "largest": np.array([self._largest]),
            "rejected": np.array([self.rejected]),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Go on where ``state_dict`` was called.

        Raises:
            ValueError: of another capacity.
        """
        if state["priorities"].shape != self._serials.shape:
            raise ValueError(f"priorities of {len(state['priorities'])} cells, this run has {len(self._serials)}")
        self._tree.set(np.arange(len(self._serials)), state["priorities"].astype(np.float64))
        self._serials[:] = state["serials"]
        self._largest, self.rejected = float(state["largest"][0]), int(state["rejected"][0])


@lru_cache(maxsize=8)
def _dealt(count: int) -> NDArray[np.int64]:
    """[2 count] the order in which parts are dealt out, twice over, so that it can begin anywhere."""
    step = max(1, round(count * 0.6180339887498949))
    while gcd(step, count) > 1:
        step += 1
    return np.arange(2 * count) * step % count


def _last_of_each(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each cell once and in order, and the last position [..] that it has in ``cells`` [k]."""
    # One sort of whole numbers instead of a stable one of pairs. Which of several values an assignment by index leaves
    # is numpy's to choose.
    keys = np.sort(cells * len(cells) + np.arange(len(cells)))
    cells, positions = np.divmod(keys, len(cells))
    last = np.ones(len(cells), np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=last[:-1])
    return cells[last], positions[last]

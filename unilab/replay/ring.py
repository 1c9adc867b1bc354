"""The replay ring (docs/design.md, contract 2).

One float32 row per env step and an int64 side array with the policy version that acted. The ``cursor`` counts
rows ever appended and never wraps; row number r lies in cell r % capacity. A row is written once, complete, and
only then does the cursor move. One process appends; who reads must keep to rows that are not being overwritten,
which is what the pacer's sample domain guarantees.

Several collectors have a ring each, with cells, cursor and row numbers of its own, in one block of memory
(``open_rings``): so one gather reads from all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unilab.replay.layout import RowLayout
from unilab.replay.priorities import PerConfig
from unilab.replay.transition import Transition, write_step
from unilab.shm.arrays import Arrays, Field, required_bytes
from unilab.shm.segment import BACKING, Backing

UNWRITTEN = -(2**62)  # policy version of a cell that was never written
RANDOM_POLICY = -1  # policy version of rows from uniform random actions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig(PerConfig):
    """How much is kept and how it is drawn."""

    buffer_size: int = 1_000_000
    """Transitions kept, whatever the number of envs."""
    learning_starts: int | Literal["auto"] = "auto"
    """Transitions before the first update, in whole rounds; auto: 5,000, or a tenth of total_steps if that is less."""
    warmup: Literal["uniform", "policy"] = "uniform"
    """What acts until the first update: uniform random actions, or the policy that the run begins with, exploring."""
    batch_size: int = 256
    """Rows of one update."""


class Ring:
    """Packed transitions in shared memory.

    Args:
        capacity: rows kept.
        layout: columns of a row.
        backing: see ``shm.segment``.
    """

    def __init__(self, capacity: int, layout: RowLayout, *, backing: Backing = BACKING) -> None:
        self._open(_memory([capacity], layout, backing), layout, 0, 0, capacity)

    def _open(self, shared: Arrays, layout: RowLayout, index: int, first_cell: int, capacity: int) -> None:
        self.capacity = capacity
        self.layout = layout
        self.index = index
        """Number of this ring among those in its memory."""
        self.first_cell = first_cell
        """Where its cells begin in that memory."""
        self._shared = shared
        self._cells = slice(first_cell, first_cell + capacity)

    @staticmethod
    def required_bytes(capacity: int, layout: RowLayout) -> int:
        """Shared memory that a ring of this size takes, or rings of this size together."""
        return required_bytes(_fields([capacity], layout))

    @property
    def _rows(self) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._shared.rows[self._cells]
        return rows

    @property
    def _versions(self) -> NDArray[np.int64]:
        versions: NDArray[np.int64] = self._shared.versions[self._cells]
        return versions

    @property
    def cursor(self) -> int:
        """Rows ever appended."""
        return int(self._shared.cursor[self.index])

    @cursor.setter
    def cursor(self, rows: int) -> None:
        self._shared.cursor[self.index] = rows

    @property
    def oldest(self) -> int:
        """Number of the first row that is in the ring; the cursor if it is empty."""
        return self._held()[0]

    def append(
        self,
        obs: Mapping[str, NDArray[np.float32]],
        action: NDArray[np.float32],
        step: Transition,
        policy_version: int,
        repeat: NDArray[np.bool_] | None = None,
    ) -> None:
        """Append one row per env.

        Args:
            obs: groups the action was chosen on, [n, dim] each.
            action: [n, action_dim] in [-1, 1].
            step: what the env answered.
            policy_version: version of the weights that acted.
            repeat: [n] the envs whose transition is not fit to be stored; what the append before stored for them, with
                its version, is stored once more instead. So there are as many rows as env steps, and none is made up.

        Raises:
            ValueError: n rows exceed the capacity, or there is nothing to repeat.
        """
        n = self._fitting(len(action))
        rows, all_versions, columns, cursor = self._rows, self._versions, self.layout.columns, self.cursor
        if repeat is not None:  # before they may be overwritten
            numbers, old_rows, old_versions = self._rows_before(repeat)
        done = 0
        for cells in row_spans(cursor, n, self.capacity):
            part = slice(done, done + cells.stop - cells.start)
            write_step(rows[cells], columns, obs, action, step, part)
            all_versions[cells] = policy_version
            done = part.stop
        if repeat is not None:
            into = (numbers + n) % self.capacity
            rows[into], all_versions[into] = old_rows, old_versions
        self.cursor = cursor + n

    def append_rows(
        self, rows: NDArray[np.float32], versions: NDArray[np.int64], repeat: NDArray[np.bool_] | None = None
    ) -> None:
        """Append packed rows.

        Args:
            rows: [n, width] float32; changed in place where ``repeat`` says so.
            versions: [n] int64, policy versions; changed likewise.
            repeat: [n] as in ``append``, where the n rows before this call are meant.

        Raises:
            ValueError: n rows exceed the capacity, or there is nothing to repeat.
        """
        self._fitting(len(rows))
        own_rows, own_versions, cursor = self._rows, self._versions, self.cursor
        if repeat is not None and repeat.any():
            _, rows[repeat], versions[repeat] = self._rows_before(repeat)
        done = 0
        for cells in row_spans(cursor, len(rows), self.capacity):
            part = slice(done, done + cells.stop - cells.start)
            own_rows[cells], own_versions[cells] = rows[part], versions[part]
            done = part.stop
        self.cursor = cursor + len(rows)

    def restore(self, number: int, rows: NDArray[np.float32], versions: NDArray[np.int64]) -> None:
        """Append rows that another ring held, under the numbers that they had there.

        Args:
            number: of the first of these rows: the cursor, or any number while the ring is empty.
            rows: [n, width] float32, as ``read`` gave them.
            versions: [n] int64, policy versions.

        Raises:
            ValueError: the number leaves a gap, or n rows exceed the capacity.
        """
        if self.cursor == self.oldest:
            self._shared.first[self.index] = self.cursor = number
        if number != self.cursor or len(rows) > self.capacity:
            raise ValueError(f"{len(rows)} rows from {number} on do not follow row {self.cursor} of {self.capacity}")
        self.append_rows(rows, versions)

    def rewind(self, cursor: int) -> None:
        """Forget the rows from number ``cursor`` on, while nobody appends: of a chunk that was not finished.

        Older rows that they overwrote are gone.
        """
        self.cursor = min(cursor, self.cursor)

    def gather(self, numbers: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Copy rows by number.

        Args:
            numbers: [k] row numbers, each in [cursor - capacity, cursor).
            out: [k, width] float32, C-contiguous; receives the rows.
        """
        # mode="clip" is the one that numpy gathers straight into `out`, without a bounds-checked copy.
        np.take(self._rows, numbers % self.capacity, axis=0, out=out, mode="clip")

    def versions_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Policy versions of rows by number, [k] int64."""
        versions: NDArray[np.int64] = self._versions[numbers % self.capacity]
        return versions

    def read(self, start: int, stop: int) -> Iterator[NDArray[np.float32]]:
        """Rows [start, stop) in order, as one or two read-only views into the ring.

        Raises:
            ValueError: the range is not in the ring any more, or not yet.
        """
        return map(self._read_only, self._spans(start, stop))

    def versions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Policy versions of rows [start, stop), [stop - start] int64.

        Raises:
            ValueError: the range is not in the ring any more, or not yet.
        """
        return np.concatenate([self._versions[cells] for cells in self._spans(start, stop)] or [np.empty(0, np.int64)])

    def digest(self) -> str:
        """SHA-256 over cursor, rows and versions that the ring holds, in order of age."""
        start, stop = self._held()
        sha = sha256(f"{stop}".encode())
        for rows in self.read(start, stop):
            sha.update(rows.data)
        sha.update(self.versions(start, stop).data)
        return sha.hexdigest()

    def free(self) -> None:
        """Give up the memory, that of other rings in it too; any later use raises ``BlockFreed``."""
        self._shared.free()

    def _fitting(self, n: int) -> int:
        if n > self.capacity:
            raise ValueError(f"an append of {n} rows laps a ring of {self.capacity}")
        return n

    def _rows_before(
        self, repeat: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Numbers of the newest rows of the envs in ``repeat`` [n], the rows and their versions, as copies."""
        numbers = np.flatnonzero(repeat) + self.cursor - len(repeat)
        if numbers.size and numbers[0] < self.oldest:
            raise ValueError(f"rows from {numbers[0]} on are not in the ring; they cannot be repeated")
        cells = numbers % self.capacity
        return numbers, self._rows[cells], self._versions[cells]

    def _held(self) -> tuple[int, int]:
        """Rows [oldest, cursor) that are in the ring, by one look at the cursor."""
        cursor = self.cursor
        return max(int(self._shared.first[self.index]), cursor - self.capacity), cursor

    def _spans(self, start: int, stop: int) -> list[slice]:
        oldest, cursor = self._held()
        if not oldest <= start <= stop <= cursor:
            raise ValueError(f"rows [{start}, {stop}) are not in the ring, which holds [{oldest}, {cursor})")
        return row_spans(start, stop - start, self.capacity)

    def _read_only(self, cells: slice) -> NDArray[np.float32]:
        view = self._rows[cells]
        view.flags.writeable = False
        return view


def open_rings(capacities: Sequence[int], layout: RowLayout) -> tuple[Ring, ...]:
    """Rings of these capacities in one block of memory, which any of them frees."""
    shared, first_cell, rings = _memory(capacities, layout, BACKING), 0, []
    for index, capacity in enumerate(capacities):
        ring = Ring.__new__(Ring)
        ring._open(shared, layout, index, first_cell, capacity)
        rings.append(ring)
        first_cell += capacity
    return tuple(rings)


def gather_all(rings: Sequence[Ring], cells: NDArray[np.int64], out: NDArray[np.float32]) -> NDArray[np.int64]:
    """Copy rows of rings that lie in one memory.

    Args:
        rings: from ``open_rings``.
        cells: [k] in that memory: ``ring.first_cell + number % ring.capacity``.
        out: [k, width] float32, C-contiguous; receives the rows.

    Returns:
        The policy versions of the first ``len(cells)`` rows, [k] int64.
    """
    shared = rings[0]._shared
    np.take(shared.rows, cells, axis=0, out=out, mode="clip")
    versions: NDArray[np.int64] = shared.versions[cells]
    return versions


def row_spans(cursor: int, count: int, capacity: int) -> list[slice]:
    """Cells of ``count`` rows from row number ``cursor`` on, in order: one slice, or tail then head."""
    start = cursor % capacity
    first = min(count, capacity - start)
    spans = [slice(start, start + first), slice(0, count - first)]
    return [span for span in spans if span.stop > span.start]


def _memory(capacities: Sequence[int], layout: RowLayout, backing: Backing) -> Arrays:
    shared = Arrays(_fields(capacities, layout), "ring", backing=backing)
    # Poison: a row that is read before it was written turns every loss into NaN at once.
    shared.rows[:] = np.nan
    shared.versions[:] = UNWRITTEN
    return shared


def _fields(capacities: Sequence[int], layout: RowLayout) -> list[Field]:
    return [
        Field("cursor", (len(capacities),), "int64"),
        Field("first", (len(capacities),), "int64"),
        Field("versions", (sum(capacities),), "int64"),
        Field("rows", (sum(capacities), layout.width), "float32"),
    ]

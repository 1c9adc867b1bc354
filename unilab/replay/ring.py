"""The replay ring (docs/design.md, contract 2).

One float32 row per env step and an int64 side array with the policy version that acted. The ``cursor`` counts
rows ever appended and never wraps; row number r lies in cell r % capacity. A row is written once, complete, and
only then does the cursor move. One process appends; who reads must keep to rows that are not being overwritten,
which is what the pacer's sample domain guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unilab.replay.layout import RowLayout
from unilab.replay.transition import Transition, write_step
from unilab.shm.arrays import Arrays, Field, required_bytes
from unilab.shm.segment import BACKING, Backing

UNWRITTEN = -(2**62)  # policy version of a cell that was never written
RANDOM_POLICY = -1  # policy version of rows from uniform random actions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
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
        self.capacity = capacity
        self.layout = layout
        self._shared = Arrays(_fields(capacity, layout), "ring", backing=backing)
        # Poison: a row that is read before it was written turns every loss into NaN at once.
        self._shared.rows[:] = np.nan
        self._shared.versions[:] = UNWRITTEN

    @staticmethod
    def required_bytes(capacity: int, layout: RowLayout) -> int:
        """Shared memory that a ring of this size takes."""
        return required_bytes(_fields(capacity, layout))

    @property
    def cursor(self) -> int:
        """Rows ever appended."""
        return int(self._shared.cursor[0])

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
        shared, columns, cursor = self._shared, self.layout.columns, self.cursor
        if repeat is not None:  # before they may be overwritten
            numbers, old_rows, old_versions = self._rows_before(repeat)
        done = 0
        for cells in row_spans(cursor, n, self.capacity):
            part = slice(done, done + cells.stop - cells.start)
            write_step(shared.rows[cells], columns, obs, action, step, part)
            shared.versions[cells] = policy_version
            done = part.stop
        if repeat is not None:
            into = (numbers + n) % self.capacity
            shared.rows[into], shared.versions[into] = old_rows, old_versions
        shared.cursor[0] = cursor + n

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
        shared, cursor = self._shared, self.cursor
        if repeat is not None and repeat.any():
            _, rows[repeat], versions[repeat] = self._rows_before(repeat)
        done = 0
        for cells in row_spans(cursor, len(rows), self.capacity):
            part = slice(done, done + cells.stop - cells.start)
            shared.rows[cells], shared.versions[cells] = rows[part], versions[part]
            done = part.stop
        shared.cursor[0] = cursor + len(rows)

    def restore(self, number: int, rows: NDArray[np.float32], versions: NDArray[np.int64]) -> None:
        """Append rows that another ring held, under the numbers that they had there.

        Args:
            number: of the first of these rows: the cursor, or any number while the ring is empty.
            rows: [n, width] float32, as ``read`` gave them.
            versions: [n] int64, policy versions.

        Raises:
            ValueError: the number leaves a gap, or n rows exceed the capacity.
        """
        shared = self._shared
        if self.cursor == self.oldest:
            shared.first[0] = shared.cursor[0] = number
        if number != self.cursor or len(rows) > self.capacity:
            raise ValueError(f"{len(rows)} rows from {number} on do not follow row {self.cursor} of {self.capacity}")
        self.append_rows(rows, versions)

    def rewind(self, cursor: int) -> None:
        """Forget the rows from number ``cursor`` on, while nobody appends: of a chunk that was not finished.

        Older rows that they overwrote are gone.
        """
        self._shared.cursor[0] = min(cursor, self.cursor)

    def gather(self, numbers: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Copy rows by number.

        Args:
            numbers: [k] row numbers, each in [cursor - capacity, cursor).
            out: [k, width] float32, C-contiguous; receives the rows.
        """
        # mode="clip" is the one that numpy gathers straight into `out`, without a bounds-checked copy.
        np.take(self._shared.rows, numbers % self.capacity, axis=0, out=out, mode="clip")

    def versions_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Policy versions of rows by number, [k] int64."""
        versions: NDArray[np.int64] = self._shared.versions[numbers % self.capacity]
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
        return np.concatenate(
            [self._shared.versions[cells] for cells in self._spans(start, stop)] or [np.empty(0, np.int64)]
        )

    def digest(self) -> str:
        """SHA-256 over cursor, rows and versions that the ring holds, in order of age."""
        start, stop = self._held()
        sha = sha256(f"{stop}".encode())
        for rows in self.read(start, stop):
            sha.update(rows.data)
        sha.update(self.versions(start, stop).data)
        return sha.hexdigest()

    def free(self) -> None:
        """Give up the memory; any later use raises ``BlockFreed``."""
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
        return numbers, self._shared.rows[cells], self._shared.versions[cells]

    def _held(self) -> tuple[int, int]:
        """Rows [oldest, cursor) that are in the ring, by one look at the cursor."""
        cursor = self.cursor
        return max(int(self._shared.first[0]), cursor - self.capacity), cursor

    def _spans(self, start: int, stop: int) -> list[slice]:
        oldest, cursor = self._held()
        if not oldest <= start <= stop <= cursor:
            raise ValueError(f"rows [{start}, {stop}) are not in the ring, which holds [{oldest}, {cursor})")
        return row_spans(start, stop - start, self.capacity)

    def _read_only(self, cells: slice) -> NDArray[np.float32]:
        view = self._shared.rows[cells]
        view.flags.writeable = False
        return view

    def __getstate__(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "layout": self.layout, "_shared": self._shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def row_spans(cursor: int, count: int, capacity: int) -> list[slice]:
    """Cells of ``count`` rows from row number ``cursor`` on, in order: one slice, or tail then head."""
    start = cursor % capacity
    first = min(count, capacity - start)
    spans = [slice(start, start + first), slice(0, count - first)]
    return [span for span in spans if span.stop > span.start]


def _fields(capacity: int, layout: RowLayout) -> list[Field]:
    return [
        Field("cursor", (1,), "int64"),
        Field("first", (1,), "int64"),
        Field("versions", (capacity,), "int64"),
        Field("rows", (capacity, layout.width), "float32"),
    ]

"""Named int64 counters in shared memory, each with one writer and a cache line of its own.

An aligned int64 is loaded and stored whole on every processor that this runs on. Data that a counter announces is
written before the counter, and x86-64 shows stores to others in their order. A processor that does not (ARM) could
show the counter first: weights are safe there through their checksum, ring rows are not, and a run says so at its
start.
"""

from __future__ import annotations

from collections.abc import Sequence

from unilab.shm.arrays import ALIGNMENT, Arrays, Field

_STRIDE = ALIGNMENT // 8


class Counters:
    """``counters["granted"] = 3`` in one process is ``counters["granted"] == 3`` in all.

    Raises:
        KeyError: a name that was not declared.
        BlockFreed: used after ``free``.
    """

    def __init__(self, names: Sequence[str], label: str = "counters") -> None:
        self._index = {name: i * _STRIDE for i, name in enumerate(names)}
        self._arrays = Arrays([Field("values", (len(names) * _STRIDE,), "int64")], label)

    def __getitem__(self, name: str) -> int:
        return int(self._arrays.values[self._index[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self._arrays.values[self._index[name]] = value

    def free(self) -> None:
        """Give up the memory; safe to call twice."""
        self._arrays.free()

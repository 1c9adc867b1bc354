"""Host slots in shared memory: whoever has the rows at hand packs them, the learner trains on them.

A collector packs the batch of its chunk right after the chunk's rows, and only then calls the chunk finished. So
packing is hidden behind the updates and costs the learner nothing (before, drawing and gathering 256 rows took 60 us of
each tick: the cache misses of random rows). Who may write when is up to the pacer: a chunk is granted once the slot
of its batch is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.replay.layout import RowLayout
from unilab.replay.pack import AGE_SAMPLE, Packed, pack
from unilab.replay.ring import Ring
from unilab.replay.samplers import UniformSampler
from unilab.shm.arrays import Arrays, Field, required_bytes


class HostSlots:
    """Batch t lies in slot t % slots, beside a report of what was packed.

    Args:
        slots: how many.
        rows: most rows of a batch.
        layout: of a row.
    """

    def __init__(self, slots: int, rows: int, layout: RowLayout) -> None:
        self._shared = Arrays(_fields(slots, rows, layout), "host slots")

    @staticmethod
    def required_bytes(slots: int, rows: int, layout: RowLayout) -> int:
        """Shared memory that the slots take."""
        return required_bytes(_fields(slots, rows, layout))

    @property
    def host(self) -> NDArray[np.float32]:
        """[slots, rows, width] float32."""
        host: NDArray[np.float32] = self._shared.host
        return host

    def pack(self, ring: Ring, sampler: UniformSampler, *, tick: int, rows: int, low: int, high: int) -> None:
        """Draw ``rows`` rows of [low, high) for ``tick`` and gather them into its slot."""
        slot = tick % len(self._shared.host)
        packed = pack(ring, sampler, self._shared.host[slot, :rows], tick=tick, low=low, high=high)
        report = self._shared.report[slot]
        report[:3] = tick, rows, high
        report[3 : 3 + len(packed.versions)] = packed.versions

    def packed(self, tick: int) -> Packed:
        """What lies in the slot of ``tick``, which must have been packed."""
        report = self._shared.report[tick % len(self._shared.report)].copy()
        packed_tick, rows, watermark = report[:3].tolist()
        assert packed_tick == tick, f"the slot of batch {tick} holds batch {packed_tick}"
        return Packed(tick, rows, watermark, report[3 : 3 + min(rows, AGE_SAMPLE)])

    def free(self) -> None:
        """Give up the memory."""
        self._shared.free()

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _fields(slots: int, rows: int, layout: RowLayout) -> list[Field]:
    return [
        Field("host", (slots, rows, layout.width), "float32"),
        Field("report", (slots, 3 + AGE_SAMPLE), "int64"),  # tick, rows, watermark, versions of the first rows
    ]

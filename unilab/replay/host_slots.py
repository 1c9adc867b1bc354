"""Host slots in shared memory: whoever has the rows at hand packs them, the learner trains on them.

In lockstep a collector packs the batch of its chunk right after the chunk's rows, and only then calls the chunk
finished. So packing is hidden behind the updates and costs the learner nothing (before, drawing and gathering 256 rows
took 60 us of each tick: the cache misses of random rows). Several collectors pack the rows of their own ranges each,
into one slot: all draw the same numbers, and none waits for another. Who may write when is up to the pacer: a chunk is
granted once the slot of its batch is free.

Free-running, where a batch does not belong to a chunk, the learner's process packs (``pack``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.replay.layout import RowLayout
from unilab.replay.pack import AGE_SAMPLE, Domain, Packed, pack, pack_own
from unilab.replay.ring import Ring, gather_all
from unilab.replay.samplers import UniformSampler
from unilab.shm.arrays import Arrays, Field, required_bytes


class HostSlots:
    """Batch t lies in slot t % slots, beside a report of what was packed.

    Args:
        slots: how many.
        rows: most rows of a batch.
        layout: of a row.
        packers: who packs a part of each batch.
        drawn: the learner says which rows a batch has.
    """

    def __init__(self, slots: int, rows: int, layout: RowLayout, packers: int = 1, *, drawn: bool = False) -> None:
        self._shared = Arrays(_fields(slots, rows, layout, packers, drawn), "host slots")

    @staticmethod
    def required_bytes(slots: int, rows: int, layout: RowLayout, packers: int = 1, *, drawn: bool = False) -> int:
        """Shared memory that the slots take."""
        return required_bytes(_fields(slots, rows, layout, packers, drawn))

    @property
    def host(self) -> NDArray[np.float32]:
        """[slots, rows, width] float32."""
        host: NDArray[np.float32] = self._shared.host
        return host

    def pack(self, rings: Sequence[Ring], sampler: UniformSampler, *, tick: int, rows: int, domain: Domain) -> None:
        """Draw ``rows`` rows of the domain for ``tick`` and gather them into its slot."""
        slot = self._slot(tick)
        packed = pack(rings, sampler, self._shared.host[slot, :rows], tick=tick, domain=domain)
        self._shared.versions[slot, : len(packed.versions)] = packed.versions
        self._shared.report[slot] = tick, rows, packed.watermark

    def pack_own(self, ring: Ring, sampler: UniformSampler, *, tick: int, rows: int, domain: Domain) -> None:
        """The same for those of the rows that lie in this ring, one of several; the others' collectors do theirs."""
        slot = self._slot(tick)
        sample, versions = pack_own(ring, sampler, self._shared.host[slot, :rows], tick=tick, domain=domain)
        self._shared.versions[slot, sample] = versions
        self._shared.report[slot, ring.index] = tick, rows, sum(high for _, high in domain)

    def leave_cells(self, tick: int, cells: NDArray[np.int64]) -> None:
        """Learner: batch ``tick`` has the rows in these cells of the rings' memory, [k] int64."""
        self._shared.cells[self._slot(tick), : len(cells)] = cells

    def pack_cells(self, rings: Sequence[Ring], *, tick: int, rows: int, watermark: int) -> None:
        """Gather the rows whose cells were left for ``tick``, all of the rings'."""
        slot = self._slot(tick)
        versions = gather_all(rings, self._shared.cells[slot, :rows], self._shared.host[slot, :rows])
        self._shared.versions[slot, : min(rows, AGE_SAMPLE)] = versions[:AGE_SAMPLE]
        self._shared.report[slot] = tick, rows, watermark

    def pack_own_cells(self, ring: Ring, *, tick: int, rows: int, watermark: int) -> None:
        """The same for those of the cells that lie in this ring, one of several."""
        slot = self._slot(tick)
        cells = self._shared.cells[slot, :rows] - ring.first_cell
        places = np.flatnonzero((cells >= 0) & (cells < ring.capacity))
        own = np.empty((len(places), self._shared.host.shape[2]), np.float32)
        ring.gather(cells[places], own)
        self._shared.host[slot, places] = own
        sample = places[: np.searchsorted(places, AGE_SAMPLE)]
        self._shared.versions[slot, sample] = ring.versions_of(cells[sample])
        self._shared.report[slot, ring.index] = tick, rows, watermark

    def packed(self, tick: int) -> Packed:
        """What lies in the slot of ``tick``, which must have been packed."""
        slot = self._slot(tick)
        report: list[list[int]] = self._shared.report[slot].tolist()
        packed_tick, rows, watermark = report[0]
        assert all(part == report[0] for part in report), f"the slot of batch {tick} has parts of several: {report}"
        assert packed_tick == tick, f"the slot of batch {tick} holds batch {packed_tick}"
        return Packed(tick, rows, watermark, self._shared.versions[slot, : min(rows, AGE_SAMPLE)].copy())

    def _slot(self, tick: int) -> int:
        return tick % len(self._shared.host)

    def free(self) -> None:
        """Give up the memory."""
        self._shared.free()

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _fields(slots: int, rows: int, layout: RowLayout, packers: int, drawn: bool) -> list[Field]:
    return [
        Field("host", (slots, rows, layout.width), "float32"),
        Field("report", (slots, packers, 3), "int64"),  # by each packer: tick, rows, watermark
        Field("versions", (slots, AGE_SAMPLE), "int64"),  # of the first rows
        *([Field("cells", (slots, rows), "int64")] if drawn else []),  # that the learner drew
    ]

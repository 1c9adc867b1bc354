"""Packs and moves batch t+1 while the learner trains on batch t.

``prefetch(t)`` asks for a batch, ``take(t)`` waits for it, ``release(batch)`` gives its slot back. Tick t uses slot
t % slots. There are two ways to pack, which give the same bits:

- a packer thread: waits for the chunk, gathers (numpy releases the GIL) and starts the copy, all beside the updates;
- inline: ``take`` does the same itself. For small batches on the CPU a wake-up costs more than the gather
  (36 us against 16 us for 256 rows of 43 floats here), and in serial mode there is nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unilab.errors import WaitTimeout
from unilab.replay import Packed, RowLayout
from unilab.shm import Bell, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer.batch import Batch
from unilab.transfer.slots import Copier, Slot, SlotState

INLINE_BYTES = 256 * 1024
"""Batches up to this size are packed inside ``take`` on the CPU."""


class Source(Protocol):
    """Where batches come from: the ring, its sampler and the pacer, bound together by the runtime."""

    def rows(self, tick: int) -> int:
        """Rows of batch ``tick``, known in advance."""

    def wait(self, tick: int, waiter: Waiter) -> None:
        """Return once the rows that batch ``tick`` is drawn from are in the ring."""

    def pack(self, tick: int, out: NDArray[np.float32]) -> Packed:
        """Gather batch ``tick`` into ``out`` [rows, width]."""


class Pipeline:
    """Double-buffered batches.

    Args:
        source: where rows come from.
        layout: of a row.
        host: [slots, max_rows, width] float32 in shared memory, so that either side could pack.
        copier: moves slots to the device.
        waiter: of the thread that calls ``take``; its bell is rung by the packer.
        packer: waiter of the packer thread; None packs inline.
        trace: spans ``wait_batch``, ``pack``, ``copy``.
    """

    def __init__(
        self,
        source: Source,
        layout: RowLayout,
        host: NDArray[np.float32],
        copier: Copier,
        *,
        waiter: Waiter,
        packer: Waiter | None,
        trace: Tracer,
    ) -> None:
        self._source = source
        self._layout = layout
        self._host = host
        self._copier = copier
        self._waiter = waiter
        self._trace = trace
        self._views: dict[tuple[int, int, int], tuple[Tensor, ...]] = {}
        self._slots = [Slot(i) for i in range(len(host))]
        self._wanted = self._taken = 0  # newest tick asked for, newest one handed out
        self.inline_spans = ("pack", "copy") if packer is None else ()
        """Spans that the thread that calls ``take`` spends on packing."""
        self._thread = None if packer is None else _PackerThread(self._fill, packer, waiter.bell)

    def prefetch(self, tick: int) -> None:
        """Ask for the next batch; the one before it must have been taken, its slot released."""
        if tick <= self._wanted:
            raise ValueError(f"batch {tick} was asked for after batch {self._wanted}")
        if self._taken < self._wanted:
            raise ValueError(f"batch {tick} was asked for before batch {self._wanted} was taken")
        slot = self._slot(tick)
        if slot.state is not SlotState.FREE:
            raise ValueError(f"batch {tick} needs slot {slot.index}, which is {slot.state.value}")
        self._wanted = tick
        if self._thread:
            self._thread.ask(tick)

    def take(self, tick: int) -> Batch:
        """Wait for a prefetched batch.

        Raises:
            WorkerDied: the collector has ended.
            Stopped: the run was asked to stop.
            ValueError: the batch was not prefetched, or was taken before.
        """
        slot = self._slot(tick)
        if tick != self._wanted:
            raise ValueError(f"batch {tick} was not prefetched")
        if tick == self._taken:
            raise ValueError(f"batch {tick} was taken before")
        if self._thread:
            with self._trace.span("wait_batch"):
                self._thread.wait(tick, self._waiter)
        else:
            self._fill(tick, self._waiter)
        assert slot.packed is not None
        slot.advance(SlotState.READY)
        rows = self._copier.ready(slot.index, slot.packed.rows)
        slot.advance(SlotState.IN_USE)
        self._taken = tick
        return Batch(rows, self._layout, slot.packed, slot.index, self._views)

    def release(self, batch: Batch) -> None:
        """Give the batch's slot back; compute on it that was issued before still sees its rows.

        Raises:
            ValueError: the batch was released before.
        """
        slot = self._slots[batch.slot]
        if slot.packed is not batch.packed:
            raise ValueError(f"batch {batch.tick} was released before")
        self._copier.consumed(slot.index)
        slot.packed = None
        slot.advance(SlotState.FREE)

    def close(self) -> None:
        """End the packer thread and give up the device; safe to call twice."""
        if self._thread:
            self._thread.close()
        self._copier.close()

    def _slot(self, tick: int) -> Slot:
        return self._slots[tick % len(self._slots)]

    def _fill(self, tick: int, waiter: Waiter) -> None:
        """Wait for the rows, pack them and start the copy."""
        slot = self._slot(tick)
        with self._trace.span("wait_rows" if self._thread else "wait_batch"):
            self._source.wait(tick, waiter)
        slot.advance(SlotState.PACKING)
        self._copier.wait_host_free(slot.index)
        with self._trace.span("pack"):
            slot.packed = self._source.pack(tick, self._host[slot.index, : self._source.rows(tick)])
        slot.advance(SlotState.COPYING)
        with self._trace.span("copy"):
            self._copier.submit(slot.index, slot.packed.rows)


class _PackerThread:
    """Fills one slot after the other, in a thread; an error there is raised in whoever waits for the batch."""

    def __init__(self, fill: Callable[[int, Waiter], None], waiter: Waiter, done: Bell) -> None:
        self._fill = fill
        self._waiter = waiter
        self._done = done
        self._asked = self._filled = 0
        self._error: BaseException | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="packer", daemon=True)
        self._thread.start()

    def ask(self, tick: int) -> None:
        """Fill the slot of ``tick`` as soon as its rows are in."""
        self._asked = tick
        self._waiter.bell.ring()

    def wait(self, tick: int, waiter: Waiter) -> None:
        """Return once the slot of ``tick`` is filled; raises what went wrong in the thread."""
        waiter.wait(lambda: self._filled >= tick or self._error is not None, f"batch {tick} from the packer")
        if self._error is not None:
            raise self._error

    def close(self, deadline_s: float = 5.0) -> None:
        """End the thread; it leaves any wait because its ``stopped`` says so or it is idle."""
        self._closing = True
        self._waiter.bell.ring()
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise WaitTimeout(f"the packer thread did not end within {deadline_s:g} s")

    def _run(self) -> None:
        try:
            while True:
                self._waiter.wait(lambda: self._closing or self._asked > self._filled, "a batch to pack")
                if self._closing:
                    return
                self._fill(self._asked, self._waiter)
                self._filled = self._asked
                self._done.ring()
        except BaseException as error:
            self._error = error
            self._done.ring()

"""Moves batch t+1 to the device while the learner trains on batch t.

``prefetch(t)`` asks for a batch, ``take(t)`` waits for it, ``release(batch)`` gives its slot back. Tick t uses slot
t % slots. From ``prefetch(t)`` on, the host slot of t may be packed, by whoever the source says (in a run: the
collector, once chunk t is granted). The rest has to happen after that: wait for the rows and start the copy, either

- in a thread, beside the updates, where there is something to copy, or
- inside ``take``: on the CPU, where the host slot is the device slot, and in serial mode, where nobody else is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from unilab.errors import WaitTimeout
from unilab.replay import Packed, RowLayout
from unilab.shm import Bell, Waiter
from unilab.spec import Minibatch
from unilab.telemetry.trace import Tracer
from unilab.transfer.batch import Batch
from unilab.transfer.slots import Copier, Slot, SlotState


class Source(Protocol):
    """Where batches come from; bound to pacer and host slots by the runtime."""

    def ask(self, tick: int) -> None:
        """Batch ``tick`` is wanted next, and its host slot is free; called by the learner's thread."""

    def fetch(self, tick: int, waiter: Waiter) -> Packed:
        """Return once batch ``tick`` lies in its host slot."""


class Pipeline:
    """Double-buffered batches.

    Args:
        source: fills host slots.
        layout: of a row.
        slots: how many host slots there are.
        copier: moves slots to the device.
        waiter: of the thread that calls ``take``; its bell is rung by the copy thread.
        background: waiter of the copy thread; None copies inside ``take``.
        trace: spans ``prefetch``, ``wait_batch``, ``copy``.
    """

    def __init__(
        self,
        source: Source,
        layout: RowLayout,
        slots: int,
        copier: Copier,
        *,
        waiter: Waiter,
        background: Waiter | None,
        trace: Tracer,
    ) -> None:
        self._source = source
        self._layout = layout
        self._copier = copier
        self._waiter = waiter
        self._trace = trace
        self._minibatches: dict[tuple[int, int, int], Minibatch] = {}
        self._slots = [Slot(i) for i in range(slots)]
        self._wanted = self._taken = 0  # newest tick asked for, newest one handed out
        self._thread = None if background is None else _CopyThread(self._fill, background, waiter.bell)

    def prefetch(self, tick: int) -> None:
        """Ask for the next batch, whose host slot may be packed from now on; the one before must have been taken."""
        if tick <= self._wanted:
            raise ValueError(f"batch {tick} was asked for after batch {self._wanted}")
        if self._taken < self._wanted:
            raise ValueError(f"batch {tick} was asked for before batch {self._wanted} was taken")
        slot = self._slot(tick)
        if slot.state is not SlotState.FREE:
            raise ValueError(f"batch {tick} needs slot {slot.index}, which is {slot.state.value}")
        with self._trace.span("prefetch"):
            self._copier.wait_host_free(slot.index)
            self._source.ask(tick)
        slot.advance(SlotState.PACKING)
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
        with self._trace.span("wait_batch"):
            if self._thread:
                self._thread.wait(tick, self._waiter)
            else:
                self._fill(tick, self._waiter)
        assert slot.packed is not None
        slot.advance(SlotState.READY)
        rows = self._copier.ready(slot.index, slot.packed.rows)
        slot.advance(SlotState.IN_USE)
        self._taken = tick
        return Batch(rows, self._layout, slot.packed, slot.index, self._minibatches, slot.packed.weights)

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

    def retry(self) -> None:
        """What made the last fill fail is mended: whoever takes the batch does not hear of it."""
        if self._thread:
            self._thread.retry()

    def close(self) -> None:
        """End the copy thread and give up the device; safe to call twice."""
        if self._thread:
            self._thread.close()
        self._copier.close()

    def _slot(self, tick: int) -> Slot:
        return self._slots[tick % len(self._slots)]

    def _fill(self, tick: int, waiter: Waiter) -> None:
        """Wait for the rows and start the copy."""
        slot = self._slot(tick)
        slot.packed = self._source.fetch(tick, waiter)
        slot.advance(SlotState.COPYING)
        self._trace.at(tick)
        with self._trace.span("copy", tick=tick):
            self._copier.submit(slot.index, slot.packed.rows)


class _CopyThread:
    """Fills one slot after the other, in a thread; an error there is raised in whoever waits for the batch."""

    def __init__(self, fill: Callable[[int, Waiter], None], waiter: Waiter, done: Bell) -> None:
        self._fill = fill
        self._waiter = waiter
        self._idle = waiter.idle()  # what goes wrong elsewhere matters once there is something to do
        self._done = done
        self._asked = self._filled = 0
        self._error: BaseException | None = None
        self._told = False  # whether the error was raised to whoever waits
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="copier", daemon=True)
        self._thread.start()

    def ask(self, tick: int) -> None:
        """Fill the slot of ``tick`` as soon as its rows are in."""
        self._asked = tick
        self._waiter.bell.ring()

    def wait(self, tick: int, waiter: Waiter) -> None:
        """Return once the slot of ``tick`` is filled; raises what went wrong in the thread, which then waits.

        Called again after an error, it lets the thread try once more.
        """
        if self._told:
            self.retry()
        waiter.wait(lambda: self._filled >= tick or self._error is not None, f"batch {tick} from the copy thread")
        if self._error is not None:
            self._told = True
            raise self._error

    def retry(self) -> None:
        """Forget an error and try again."""
        self._error, self._told = None, False
        self._waiter.bell.ring()

    def close(self, deadline_s: float = 5.0) -> None:
        """End the thread; it leaves any wait because its ``stopped`` says so or it is idle."""
        self._closing = True
        self._waiter.bell.ring()
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise WaitTimeout(f"the copy thread did not end within {deadline_s:g} s")

    def _run(self) -> None:
        try:
            while self._next():
                try:
                    self._fill(self._asked, self._waiter)
                    self._filled = self._asked
                except Exception as error:  # may be gone when the batch is asked for again
                    self._error = error
                self._done.ring()
        except BaseException as error:
            self._error = error
            self._done.ring()

    def _next(self) -> bool:
        """Sleep until there is a batch to fill; False at the end."""
        self._idle.wait(lambda: self._closing or (self._asked > self._filled and not self._error), "a batch to copy")
        return not self._closing

"""Who waits for whom: the only place where learner and collectors wait for one another.

Lockstep (docs/design.md). P is the prefill, G the rows of a chunk, W(t) = P + t G the rows counted once chunk t is
in. Tick t trains on batch t, drawn from rows [max(0, W(t) + G - capacity), W(t)), where rows that were preloaded lie
below 0; meanwhile the collectors run chunk t+1 with weight version t-1 exactly. Everything is a function of counters,
so one seed gives one result however the processes are scheduled. Nothing that is measured at run time takes part.

Several collectors share the envs, and each has a range of the ring to itself, with counts of its own
(``Schedule.shares``): what is said above holds for each range, and a batch is drawn from all of them together.

The last tick of a run grants nothing. So a run of N ticks ends with W(N) rows and floor(utd (W(N) - P)) updates,
exactly what was asked for, instead of one chunk more than was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unilab.errors import Stopped
from unilab.pacing.base import Line
from unilab.pacing.schedule import Chunk, Schedule
from unilab.pacing.waiting import Look
from unilab.shm import Bell, Counters, Waiter


class Lockstep:
    """Learner's side across processes: one chunk of every collector a tick.

    Args:
        schedule: of the run.
        lines: to the collectors.
    """

    def __init__(self, schedule: Schedule, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._last = schedule.total_ticks

    def grant(self, number: int) -> None:
        """Let every collector run chunk ``number``."""
        for line in self._lines:
            line.grant(number)

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once chunk ``number`` of every collector is in the ring; meanwhile call ``look`` about once a second.

        Raises:
            WorkerDied: a collector ended, or made no step for the stall limit.
            Stopped: the run was asked to stop.
        """
        for line in self._lines:
            line.wait_finished(number, waiter, look)

    def counted(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``."""
        return (number,) * len(self._lines)

    def reach(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``."""
        return (number,) * len(self._lines)

    def parked(self, tick: int) -> bool:
        """See ``Pacer``."""
        return all(line.finished >= min(tick + 1, self._last) for line in self._lines)

    def wait_parked(self, tick: int, waiter: Waiter) -> None:
        """See ``Pacer``."""
        self.wait_finished(min(tick + 1, self._last), waiter)

    def admit(self, version: int, waiter: Waiter) -> None:
        """Nothing to wait for: the version that acts is a function of the chunk."""

    def published(self, version: int) -> None:
        """Nobody asks."""

    @property
    def debt(self) -> None:
        """There can be none."""


class LockstepCollector:
    """Collector's side across processes.

    Args:
        schedule: of the run, or of this collector's share.
        counters: shared; see ``COUNTERS``.
        waiter: the collector's own.
        listeners: bells of everyone who waits for chunks.
        parked: called between two chunks when the learner asks for the state.
    """

    def __init__(
        self,
        schedule: Schedule,
        counters: Counters,
        waiter: Waiter,
        listeners: Sequence[Bell],
        parked: Callable[[], None] = lambda: None,
    ) -> None:
        self._schedule = schedule
        self._counters = counters
        self._waiter = waiter
        self._listeners = listeners
        self._parked = parked
        self._asked = counters["parked"]
        self._next = counters["finished"] + 1
        self._rounds = counters["rounds"]

    def next_chunk(self) -> Chunk | None:
        """The next granted chunk; None once the learner asks to stop."""
        counters = self._counters
        while True:
            self._waiter.wait(
                lambda: counters["granted"] >= self._next or counters["parked"] > self._asked or bool(counters["stop"]),
                f"the grant of chunk {self._next}",
            )
            if counters["stop"]:
                return None
            if counters["granted"] >= self._next:
                return self._schedule.chunk(self._next)
            self._asked = counters["parked"]
            self._parked()

    def round_done(self) -> None:
        """Count a round; nobody is woken for it.

        Raises:
            Stopped: the learner asks to stop, so the chunk need not be finished.
        """
        self._rounds += 1
        self._counters["rounds"] = self._rounds
        if self._counters["stop"]:
            raise Stopped("stopped in the middle of a chunk")

    def finished(self, chunk: Chunk) -> None:
        """Say that the chunk is in, and wake those who wait for it."""
        self._next = chunk.number + 1
        self._counters["finished"] = chunk.number
        for bell in self._listeners:
            bell.ring()


class SerialLockstep:
    """Both sides in one process: a grant runs the chunk where the other processes would have.

    Args:
        schedule: of the run.
        run_chunk: steps the envs of all collectors for one chunk.
    """

    def __init__(self, schedule: Schedule, run_chunk: Callable[[Chunk], None]) -> None:
        self._schedule = schedule
        self._run_chunk = run_chunk

    def grant(self, number: int) -> None:
        """Run chunk ``number`` to its end."""
        self._run_chunk(self._schedule.chunk(number))

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Nothing to wait for: the chunk ran inside ``grant``."""

    def counted(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``."""
        return (number,) * self._schedule.num_collectors

    def reach(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``."""
        return (number,) * self._schedule.num_collectors

    def parked(self, tick: int) -> bool:
        """Always: a chunk is over when its grant returns."""
        return True

    def wait_parked(self, tick: int, waiter: Waiter) -> None:
        """Nothing to wait for."""

    def admit(self, version: int, waiter: Waiter) -> None:
        """Nothing to wait for."""

    def published(self, version: int) -> None:
        """Nobody asks."""

    @property
    def debt(self) -> None:
        """There can be none."""

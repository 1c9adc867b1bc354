"""Free-running: collectors run ahead of the learner within a credit, and never wait for anything else.

The account is in whole chunks, and every count in it is an integer:

- A tick spends one chunk, whichever collector it came from: tick t starts once t chunks are in (less those that are
  owed for the prefill) and makes floor(utd W(t)) - floor(utd W(t-1)) updates. So updates are utd times the env steps
  counted, at every tick and at the end, and a fast learner waits instead of training beyond its credit.
- Chunks that are granted and not spent never exceed ``Schedule.ahead``. A permit that becomes free goes to the
  collector that has the fewest left, of those to the one that had the fewest so far: a slow one holds no other up,
  and equally fast ones take turns.

A chunk acts with the newest weights there are when it begins. How old they are when it comes in depends on how far the
learner gets meanwhile, which is what the chunks allow that are in or come in before it: it is at most

    (ahead - 1 + chunks that the others bring in meanwhile) + 1 versions

with one collector ``ahead``. With ``lag_action="wait"`` the learner waits with a version that would make a chunk in
flight older than ``max_policy_lag``. The order of stores makes that exact: a collector says which weights it may act
with before it fetches them, the learner looks at all of them before it counts a version.

A batch is drawn from the rows that are in when it is packed, of each range those that no granted chunk overwrites.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from unilab.pacing.base import IDLE, Line
from unilab.pacing.lockstep import LockstepCollector
from unilab.pacing.schedule import NEWEST, Chunk, Schedule
from unilab.pacing.waiting import Look
from unilab.shm import Bell, Counters, Waiter

_LOOK_S = 1.0


class FreeRunning:
    """Learner's side.

    Args:
        schedule: of the run, with ``ahead``.
        lines: to the collectors.
        tick: last finished one of a run that goes on.
        counted: newest chunk of each collector that it counted.
        wait_for_lag: the learner waits with a version that makes a chunk in flight older than this; None: with none.
    """

    def __init__(
        self,
        schedule: Schedule,
        lines: Sequence[Line],
        *,
        tick: int = 0,
        counted: Sequence[int] = (),
        wait_for_lag: int | None = None,
    ) -> None:
        assert schedule.ahead is not None
        self._schedule = schedule
        self._lines = lines
        self._ahead = schedule.ahead
        self._taken = tick
        self._counted = {tick: tuple(counted) or (0,) * len(lines)}
        self._wait_for_lag = wait_for_lag
        self._pulses = [line.pulse() for line in lines]
        self._looked_s = time.monotonic()

    def grant(self, number: int) -> None:
        """Give out the permits that there are once batch ``number - 1`` was taken."""
        if number == 0:
            for line in self._lines:
                line.grant(0)
            return
        self._taken = number - 1
        granted = [line.granted for line in self._lines]
        left = [count - line.finished for count, line in zip(granted, self._lines, strict=True)]
        before = list(granted)
        for _ in range(self._limit(number) - sum(granted)):
            i = min(range(len(left)), key=lambda i: (left[i], granted[i]))
            granted[i] += 1
            left[i] += 1
        for line, old, new in zip(self._lines, before, granted, strict=True):
            if new > old:
                line.grant(new)

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once as many chunks are in as tick ``number`` counts, of whichever collectors.

        Raises:
            WorkerDied: a collector ended, or none made a step for the stall limit.
            Stopped: the run was asked to stop.
        """
        if number == 0:
            for line in self._lines:
                line.wait_finished(0, waiter, look)
            return
        self._look_at_all()
        needed = number - self._schedule.debt_ticks
        if self._arrived() < needed:
            self._slowest().wait(waiter, lambda: self._arrived() >= needed, f"chunk {needed} of all collectors", look)
        finished = tuple(line.finished for line in self._lines)
        # The copy thread may wait for batch t+1 while tick t still asks for what it and the tick before counted.
        self._counted = {n: chunks for n, chunks in self._counted.items() if n >= number - 2} | {number: finished}

    def counted(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``."""
        return self._counted[number]

    def reach(self, number: int) -> tuple[int, ...]:
        """See ``Pacer``: all permits that are not granted yet could go to any one collector."""
        granted = [line.granted for line in self._lines]
        spare = max(0, self._limit(number) - sum(granted))
        return tuple(count + spare for count in granted)

    def parked(self, tick: int) -> bool:
        """See ``Pacer``."""
        return all(line.finished == line.granted for line in self._lines)

    def wait_parked(self, tick: int, waiter: Waiter) -> None:
        """See ``Pacer``: at most ``ahead`` chunks."""
        for line in self._lines:
            line.wait_finished(line.granted, waiter)

    def admit(self, version: int, waiter: Waiter) -> None:
        """See ``Pacer``."""
        if self._wait_for_lag is None:
            return
        oldest = version - self._wait_for_lag
        for line in self._lines:
            if line.counters["acting"] < oldest:
                line.wait_acting(oldest, waiter)

    def published(self, version: int) -> None:
        """Collectors see how old their weights are."""
        for line in self._lines:
            line.counters["version"] = version

    @property
    def debt(self) -> int:
        """See ``Pacer``; those that are owed for the prefill not counted."""
        return self._arrived() - self._spent(self._taken)

    def _limit(self, number: int) -> int:
        """Chunks that may be granted in all, once batch ``number - 1`` was taken."""
        return min(self._spent(number - 1) + self._ahead, self._schedule.total_chunks)

    def _spent(self, tick: int) -> int:
        return max(0, tick - self._schedule.debt_ticks)

    def _arrived(self) -> int:
        return sum(line.finished for line in self._lines)

    def _look_at_all(self) -> None:
        """A collector that hangs is found although the others go on; looked at once a second.

        Raises:
            WorkerDied: it has a chunk to run, and made no step for the stall limit.
        """
        if time.monotonic() - self._looked_s < _LOOK_S:
            return
        self._looked_s = time.monotonic()
        for line, pulse in zip(self._lines, self._pulses, strict=True):
            if line.granted == line.finished:
                pulse.beat()
            elif (silent_s := pulse.silent_s()) >= line.stall_limit_s:
                raise line.stuck(silent_s, f"chunk {line.finished + 1}")

    def _slowest(self) -> Line:
        """Whose signs of life to look at: any that has a chunk to run."""
        return max(self._lines, key=lambda line: line.granted - line.finished)


class FreeCollector(LockstepCollector):
    """Collector's side: says which weights it may be acting with.

    Args:
        latest: newest version there is.

    The others are those of ``LockstepCollector``.
    """

    def __init__(
        self,
        schedule: Schedule,
        counters: Counters,
        waiter: Waiter,
        listeners: Sequence[Bell],
        parked: Callable[[], None] = lambda: None,
        *,
        latest: Callable[[], int],
    ) -> None:
        super().__init__(schedule, counters, waiter, listeners, parked)
        self._latest = latest

    def next_chunk(self) -> Chunk | None:
        """The next granted chunk, which acts with the newest weights: those at this moment, or newer ones."""
        chunk = super().next_chunk()
        if chunk and chunk.version == NEWEST:
            self._counters["acting"] = self._latest()
        return chunk

    def finished(self, chunk: Chunk) -> None:
        """Say that the chunk is in, and wake those who wait for it."""
        self._counters["acting"] = IDLE
        super().finished(chunk)

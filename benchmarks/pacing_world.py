"""Learner and collectors as events in simulated time: the real schedule, counters and pacers, made-up durations.

No thread, no process and no clock: whoever is due next does what it does to the counters, so every interleaving that
durations can bring about can be looked at step by step (tests/pacing/test_free_running.py), and runs on machines that
nobody has can be timed (simulate_collectors.py). No run uses it, so it is not in the package.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from unilab.pacing import (
    COUNTERS,
    IDLE,
    NEWEST,
    FreeCollector,
    FreeRunning,
    Line,
    Lockstep,
    LockstepCollector,
    Schedule,
)
from unilab.shm import Counters


class NoBell:
    """Nobody sleeps."""

    def ring(self) -> None:
        """Nothing."""


class NoWait(Exception):
    """Who calls would have to wait."""


class Impatient:
    """A waiter for whoever looks again after the next event."""

    bell = NoBell()

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float | None = None) -> None:
        """See ``Waiter``; raises where that would sleep."""
        if not condition():
            raise NoWait(what)


@dataclass
class Seen:
    """What the test looks at, after every event."""

    ticks: int = 0
    updates: int = 0
    version: int = 0
    published: int = 0
    launched: dict[int, tuple[int, int, int]] = field(
        default_factory=dict
    )  # by collector: version, lag, others' chunks
    lags: list[tuple[int, int, int]] = field(default_factory=list)  # at launch, at arrival, chunks of others meanwhile
    chunks: list[int] = field(default_factory=list)  # brought in by each collector


class World:
    """One run.

    Args:
        schedule: of the run; lockstep or free-running, as it says.
        collect_s: simulated duration of a chunk, by collector.
        learn_s: simulated duration of a tick.
        wake_s: from a ring to the moment at which whoever slept goes on.
        lag: ``wait_for_lag`` of the pacer; free-running.
        interval: ticks from one publication to the next.
        taking: called when a batch has what it counts, before anything more is granted.
    """

    def __init__(
        self,
        schedule: Schedule,
        collect_s: Callable[[int], float],
        learn_s: Callable[[], float],
        *,
        wake_s: float = 0.0,
        lag: int | None = None,
        interval: int = 1,
        taking: Callable[[World, int], None] = lambda world, tick: None,
    ) -> None:
        self.schedule = schedule
        self._taking = taking
        self._collect_s, self._learn_s, self._interval = collect_s, learn_s, interval
        self._wake_s, self._slept = wake_s, False
        n = schedule.num_collectors
        self.counters = [Counters(COUNTERS) for _ in range(n)]
        for counters in self.counters:
            counters["granted"] = counters["finished"] = -1
            counters["acting"] = IDLE
        lines = [Line(counters, NoBell(), 60.0, f"collector-{i}") for i, counters in enumerate(self.counters)]
        free = schedule.ahead is not None
        self.pacer = FreeRunning(schedule, lines, wait_for_lag=lag) if free else Lockstep(schedule, lines)
        self.seen = Seen(chunks=[0] * n)
        self.now = 0.0
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: Callable[[], None] | None = None  # what the learner tries again after each event
        self._sources = [self._source(*own) for own in zip(schedule.shares, self.counters, strict=True)]
        self._idle = set(range(n))

    def _source(self, share: Schedule, counters: Counters) -> LockstepCollector:
        if share.ahead is None:
            return LockstepCollector(share, counters, Impatient(), [])
        return FreeCollector(share, counters, Impatient(), [], latest=lambda: self.seen.published)

    def run(self, look: Callable[[World], None] = lambda world: None) -> Seen:
        """To the end; ``look`` is called after every event."""
        self.pacer.grant(0)
        self._wake_all()
        self._waiting = self._begin
        while self._events or self._waiting:
            self._go_on()
            look(self)
            if not self._events:
                assert self._waiting is None, "everybody waits"
                break
            self.now, _, event = heapq.heappop(self._events)
            event()
            look(self)
        return self.seen

    def free(self) -> None:
        """Give up the memory."""
        for counters in self.counters:
            counters.free()

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), event))

    def _go_on(self) -> None:
        while self._waiting:
            attempt, self._waiting = self._waiting, None
            try:
                attempt()
            except NoWait:
                self._waiting, self._slept = attempt, True
                return

    # ------------------------------------------------------------ the learner

    def _begin(self) -> None:
        self.pacer.wait_finished(0, Impatient())
        self.pacer.grant(1)
        self._wake_all()
        self._waiting = self._await_batch

    def _await_batch(self) -> None:
        self.pacer.wait_finished(self.seen.ticks + 1, Impatient())
        slept, self._slept = self._slept, False
        if slept and self._wake_s:
            self._after(self._wake_s, self._take)
        else:
            self._take()

    def _take(self) -> None:
        tick = self.seen.ticks + 1
        self._taking(self, tick)
        self.seen.ticks = tick
        if tick < self.schedule.total_ticks:
            self.pacer.grant(tick + 1)
            self._wake_all()
        self._after(self._learn_s(), self._learnt)

    def _learnt(self) -> None:
        self.seen.updates += self.schedule.updates(self.seen.ticks)
        self._waiting = self._publish

    def _publish(self) -> None:
        seen = self.seen
        self.pacer.admit(seen.ticks, Impatient())
        if seen.ticks % self._interval == 0:
            seen.published = seen.ticks
        self.pacer.published(seen.ticks)
        seen.version = seen.ticks
        self._waiting = self._await_batch if seen.ticks < self.schedule.total_ticks else None

    # ------------------------------------------------------------ the collectors

    def _wake_all(self) -> None:
        for i in sorted(self._idle):
            self._next_chunk(i, self._wake_s)

    def _next_chunk(self, i: int, late_s: float = 0.0) -> None:
        self._idle.add(i)
        try:
            chunk = self._sources[i].next_chunk()
        except NoWait:
            return
        assert chunk is not None
        self._idle.discard(i)
        seen = self.seen
        version = seen.published if chunk.version in (NEWEST, None) else chunk.version
        seen.launched[i] = version, seen.version - version, sum(seen.chunks) - seen.chunks[i]
        self._after(late_s + self._collect_s(i), lambda: self._finished(i, chunk))

    def _finished(self, i: int, chunk: object) -> None:
        seen = self.seen
        version, at_launch, others = seen.launched.pop(i)
        if chunk.number:  # type: ignore[attr-defined]
            seen.lags.append((at_launch, seen.version - version, sum(seen.chunks) - seen.chunks[i] - others))
            seen.chunks[i] += 1
        self._sources[i].finished(chunk)  # type: ignore[arg-type]
        self._next_chunk(i)

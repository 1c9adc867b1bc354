"""Who waits for whom: the only place where learner and collector wait for one another.

Lockstep (docs/design.md). P is the prefill, G the rows of a chunk, W(t) = P + t G the cursor once chunk t is
in. Tick t trains on batch t, drawn from rows [max(0, W(t) + G - capacity), W(t)), where rows that were preloaded lie
below 0; meanwhile the collector runs chunk t+1 with weight version t-1 exactly. Everything is a function of counters,
so one seed gives one result however the processes are scheduled. Nothing that is measured at run time takes part.

The last tick of a run grants nothing. So a run of N ticks ends with W(N) rows and floor(utd (W(N) - P)) updates,
exactly what was asked for, instead of one chunk more than was trained on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Protocol

from unilab.errors import ConfigError, Stopped, WaitTimeout, WorkerDied
from unilab.shm import Bell, Counters, Waiter

Look = Callable[[], None]
"""Called while a wait goes on, to report progress."""

_LOOK_S = 1.0

_LONGEST_TURN_S = 2 * _LOOK_S
"""More than this from one look to the next: the waiting process was stopped itself, perhaps together with the one that
it waits for (SIGSTOP, a paused container). No stall limit counts that time."""

COUNTERS = ("stop", "granted", "parked", "phase", "rounds", "finished")
"""What learner and collector share: the learner writes the first three, the collector the others."""

PHASES = ("start", "make_envs", "reset", "wait_grant", "fetch", "act", "env_step", "append", "pack")
"""What a collector may be doing, by the number in the counter ``phase``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingConfig:
    """How many updates for how many env steps, and who waits how long."""

    utd: float = 1.0
    """Updates per env step after the prefill; kept exactly over the run, fractions too."""
    steps_per_tick: int = 1
    """Steps of each env per tick; a tick is one grant, one batch, one weight publication."""
    stall_limit_s: float = 60.0
    """Seconds without a step from a collector before the run ends."""
    start_limit_s: float = 300.0
    """Seconds that a worker may take to import its modules and to make and reset its envs."""
    shutdown_timeout_s: float = 5.0
    """Seconds that an interrupted run waits for the chunk that is being collected; then it saves and ends without."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one grant lets the collector do."""

    number: int  # 0 is the prefill
    rounds: int  # steps of each env
    version: int | None  # weights that act; None: uniform random actions


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All counts of a run as pure arithmetic."""

    num_envs: int
    steps_per_tick: int
    learning_starts: int
    total_steps: int
    utd: Fraction
    capacity: int
    uniform_prefill: bool = True  # random actions; False: weight version 0 acts in the prefill too
    preloaded: int = 0  # rows of another run, numbered -preloaded to -1: sampled, but not counted

    def __post_init__(self) -> None:
        if self.utd < 0:
            raise ConfigError(f"utd={float(self.utd):g} is negative")
        if self.total_steps <= self.prefill:
            raise ConfigError(
                f"total_steps={self.total_steps:,} ends within the prefill of {self.prefill:,} transitions "
                "(learning_starts, in whole rounds of all envs): nothing would be learnt; "
                "raise total_steps or lower learning_starts"
            )
        if self.capacity < 2 * self.chunk_rows:
            raise ConfigError(
                f"buffer_size={self.capacity:,} is smaller than two chunks of {self.chunk_rows:,} rows "
                f"(num_envs x steps_per_tick); use at least {2 * self.chunk_rows:,}"
            )

    @cached_property
    def chunk_rows(self) -> int:
        """G: rows of a chunk."""
        return self.num_envs * self.steps_per_tick

    @cached_property
    def prefill(self) -> int:
        """P: rows of the prefill, whole rounds, at least one."""
        return max(1, ceil(self.learning_starts / self.num_envs)) * self.num_envs

    @property
    def total_ticks(self) -> int:
        """Ticks until ``total_steps`` env steps, the last chunk whole."""
        return ceil((self.total_steps - self.prefill) / self.chunk_rows)

    def progress(self, chunk: int) -> float:
        """Share of the run's ticks that is done when this chunk begins, within [0, 1); 0 in the prefill."""
        return max(0, chunk - 1) / self.total_ticks

    def watermark(self, tick: int) -> int:
        """W(t): rows appended once chunk t is in."""
        return self.prefill + tick * self.chunk_rows

    def domain(self, tick: int) -> tuple[int, int]:
        """Rows [low, high) that batch t is drawn from: never one that chunk t+1 overwrites."""
        high = self.watermark(tick)
        return self.oldest(tick), high

    def oldest(self, chunk: int) -> int:
        """First row that may still be drawn once this chunk is in; the next chunk overwrites what is older."""
        return max(-self.preloaded, self.watermark(chunk) + self.chunk_rows - self.capacity)

    def updates(self, tick: int) -> int:
        """Updates of tick t."""
        return self.updates_until(tick) - self.updates_until(tick - 1)

    def updates_until(self, tick: int) -> int:
        """Updates of ticks 1..t together."""
        # In integers: the same floor, and this runs in every tick.
        return self.utd.numerator * tick * self.chunk_rows // self.utd.denominator

    @property
    def max_updates(self) -> int:
        """Most updates that any tick has."""
        return ceil(self.utd * self.chunk_rows)

    def chunk(self, number: int) -> Chunk:
        """What chunk ``number`` is: the prefill, or a chunk that acts with the version published last before it."""
        if number == 0:
            return Chunk(0, self.prefill // self.num_envs, None if self.uniform_prefill else 0)
        return Chunk(number, self.steps_per_tick, max(number - 2, 0))


class Pacer(Protocol):
    """The learner's side of pacing."""

    def grant(self, number: int) -> None:
        """Let the collector run chunk ``number``; returns without waiting for it."""

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once chunk ``number`` is in the ring; meanwhile call ``look`` every now and then."""


class ChunkSource(Protocol):
    """The collector's side of pacing."""

    def next_chunk(self) -> Chunk | None:
        """The next granted chunk; None once the learner asks to stop."""

    def round_done(self) -> None:
        """Every env has stepped once and its rows are in: a sign of life."""

    def finished(self, chunk: Chunk) -> None:
        """All rows of the chunk are in the ring."""


class Lockstep:
    """Learner's side across processes.

    Args:
        counters: shared; see ``COUNTERS``.
        collector: bell of the collector.
        stall_limit_s: seconds without a round before a wait gives up.
        who: names the collector in errors.
    """

    def __init__(self, counters: Counters, collector: Bell, stall_limit_s: float, who: str) -> None:
        self._counters = counters
        self._collector = collector
        self._stall_limit_s = stall_limit_s
        self.who = who

    def grant(self, number: int) -> None:
        """Let the collector run chunk ``number``."""
        self._counters["granted"] = number
        self._collector.ring()

    def ask_state(self) -> None:
        """Ask a collector that has finished all that was granted for its state; it calls its ``parked``."""
        self._counters["parked"] += 1
        self._collector.ring()

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once chunk ``number`` is in the ring; meanwhile call ``look`` about once a second.

        Raises:
            WorkerDied: the collector ended, or made no step for the stall limit.
            Stopped: the run was asked to stop.
        """
        wait_while_alive(
            waiter,
            lambda: self._counters["finished"] >= number,
            lambda: self._counters["rounds"],
            f"chunk {number}",
            who=self.who,
            doing=lambda: PHASES[self._counters["phase"]],
            stall_limit_s=self._stall_limit_s,
            look=look,
        )


class LockstepCollector:
    """Collector's side across processes.

    Args:
        schedule: of the run.
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
    """Both sides in one process: a grant runs the chunk where the other process would have.

    Args:
        schedule: of the run.
        run_chunk: steps the envs for one chunk.
    """

    def __init__(self, schedule: Schedule, run_chunk: Callable[[Chunk], None]) -> None:
        self._schedule = schedule
        self._run_chunk = run_chunk

    def grant(self, number: int) -> None:
        """Run chunk ``number`` to its end."""
        self._run_chunk(self._schedule.chunk(number))

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Nothing to wait for: the chunk ran inside ``grant``."""


def wait_while_alive(
    waiter: Waiter,
    condition: Callable[[], bool],
    rounds: Callable[[], int],
    what: str,
    *,
    who: str,
    stall_limit_s: float,
    doing: Callable[[], str] = lambda: "its env",
    look: Look | None = None,
) -> None:
    """Wait as ``Waiter.wait`` for a process that steps envs, for as long as it shows signs of life.

    Args:
        waiter: of this process.
        condition: what is awaited.
        rounds: how often all envs have been stepped; as long as it grows, the process lives.
        what: is awaited, for errors.
        who: is awaited, for errors.
        stall_limit_s: seconds without a round that end the wait.
        doing: what the process is in, for errors.
        look: called about once a second.

    Raises:
        WorkerDied: the process ended, or made no step for the stall limit.
        Stopped: the run was asked to stop.
    """
    if condition():
        return
    pulse, silent_s = Pulse(rounds), 0.0
    while True:
        try:
            waiter.wait(condition, what, max(0.0, min(_LOOK_S, stall_limit_s - silent_s)))
            return
        except WaitTimeout:
            if look:
                look()
        silent_s = pulse.silent_s()
        if silent_s >= stall_limit_s:
            raise WorkerDied(
                f"no data from {who} for {silent_s:.0f} s, while waiting for {what}: it is stuck in {doing()} or "
                f"stopped (round {rounds()}); if its steps are that slow, raise --stall-limit"
            )


class Pulse:
    """How long a process that counts its rounds has been silent.

    Args:
        rounds: its count so far.
    """

    def __init__(self, rounds: Callable[[], int]) -> None:
        self._rounds = rounds
        self._seen, self._silent_s, self._looked_s = rounds(), 0.0, time.monotonic()

    def silent_s(self) -> float:
        """Seconds without a round, up to this look; long gaps between looks count little: we may have been stopped."""
        rounds, now = self._rounds(), time.monotonic()
        self._silent_s += min(now - self._looked_s, _LONGEST_TURN_S)
        if rounds != self._seen:
            self._silent_s = 0.0
        self._seen, self._looked_s = rounds, now
        return self._silent_s

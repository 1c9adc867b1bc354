"""What the parts of a run cost, for the simulation of many collectors.

Out of the whole runs with one collector (``bench_collectors.py``): an update, a publication, a fetch, a round of the
policy, the learner's own time, and a wake-up, which is half of what a collector waits in lockstep from its chunk's end
to the next grant while the learner has nothing else to do. (Two processes that only wake each other take a fraction of
that: their caches are warm.) Timed here, on the objects that a run uses: what the learner and each collector do for
every further collector (permits, counts, statistics, rings of bells; draw and gather over all ranges).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from bench_collectors import BATCH, ENVS_EACH, UTD, Case, Figures
from pacing_world import Impatient

from unilab.assembly import DrawnBatches
from unilab.pacing import COUNTERS, IDLE, FreeRunning, Line, Lockstep, Schedule
from unilab.replay import HostSlots, Replay, RowLayout, UniformSampler
from unilab.sampling import KeyedDraws
from unilab.seeding import stream
from unilab.shm import Bell, Counters
from unilab.spec import ReturnStats
from unilab.workers.stats import CollectorStats, Reports

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
PACINGS = ("lockstep", "free")
LAYOUT = RowLayout(3, 1)  # of the toy env

Runs = dict[Case, Figures]


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of each part, with one pacing."""

    update: float  # one
    publish: float  # each tick
    own: float  # of the learner in a tick, with one collector
    books: dict[int, float]  # of those, by number of collectors: permits, counts, statistics, rings of bells
    gather: dict[
        int, float
    ]  # by number of collectors: draw and gather, of the learner (free) or a collector (lockstep)
    fetch: float  # each chunk
    round: float  # of a collector beside the env step and what is named here
    late: float  # that a step takes longer than asked for
    wake: float

    def tick(self, collectors: int, updates: int, free: bool) -> dict[str, float]:
        """What a tick of the learner is made of."""
        more = self.books[collectors] - self.books[1]
        gather = self.gather[collectors] if free else 0.0
        return {
            "updates": updates * self.update,
            "publish": self.publish,
            "bookkeeping": max(0.0, self.own + more),
            "gather": gather,
        }

    def chunk(self, collectors: int, rounds: int, free: bool) -> float:
        """A collector's chunk without its env steps."""
        return rounds * (self.round + self.late) + self.fetch + (0.0 if free else self.gather[collectors])


@dataclass(frozen=True, slots=True)
class Env:
    """What is simulated beside the number of collectors and the pacing."""

    step_ms: float
    jitter: bool
    utd: float = UTD
    rounds: int = 1  # of a chunk: steps_per_tick

    @property
    def name(self) -> str:
        """In tables."""
        rounds = f" x {self.rounds}" if self.rounds > 1 else ""
        return f"{'jittery' if self.jitter else 'even'} {self.step_ms:g} ms{rounds}, utd {self.utd:g}"


def schedule_of(env: Env, collectors: int, pacing: str, ticks: int) -> Schedule:
    """So many ticks; envs, updates and permits as in the measured runs."""
    envs, free = ENVS_EACH * collectors, pacing == "free"
    rows = env.rounds * (ENVS_EACH if free else envs)
    return Schedule(
        num_envs=envs, steps_per_tick=env.rounds, learning_starts=40 * envs, total_steps=40 * envs + ticks * rows,
        utd=Fraction(str(env.utd)), capacity=20_000 * collectors, num_collectors=collectors,
        ahead=2 * collectors if free else None,
    )  # fmt: skip


def calibrate(pacing: str, measured: Runs) -> Costs:
    """From whole runs with one collector, and from parts timed here for more of them."""
    alone = {case: row for case, row in measured.items() if (case.collectors, case.pacing) == (1, pacing)}
    middle = {
        name: float(np.median([row[f"{name}_us"] for row in alone.values()]))
        for name in ("publish", "own", "fetch", "round")
    }
    waiting = [row for case, row in measured.items() if (case.collectors, case.pacing) == (1, "lockstep")]
    parts = [time_parts(n, pacing) for n in COUNTS]
    return Costs(
        update=float(np.median([row["update_us"] for row in measured.values()])),
        books=dict(zip(COUNTS, (part[0] for part in parts), strict=True)),
        gather=dict(zip(COUNTS, (part[1] for part in parts), strict=True)),
        late=float(
            np.median([row["step_us"] - 1e3 * case.step_ms for case, row in alone.items() if case.kind != "jittery"])
        ),
        wake=float(np.median([row["handover_us"] for row in waiting])) / 2,
        **middle,
    )


def time_parts(collectors: int, pacing: str, ticks: int = 200) -> tuple[float, float]:
    """Microseconds of a tick's bookkeeping and of a draw and gather, medians; whatever is awaited is there."""
    parts = Parts(schedule_of(Env(1.0, False), collectors, pacing, ticks))
    try:
        timed = [parts.tick(tick) for tick in range(1, ticks + 1)]
    finally:
        parts.free()
    books, gather = np.median(timed[10:], axis=0) * 1e6
    return float(books), float(gather)


class Parts:
    """The parts of a run that a tick goes through for each collector, in one process."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.counters = [Counters(COUNTERS) for _ in schedule.shares]
        for counters in self.counters:
            counters["acting"] = IDLE
        self.bells = [Bell() for _ in schedule.shares]
        lines = [Line(*own, 60.0, "") for own in zip(self.counters, self.bells, strict=True)]
        self.free_running = schedule.ahead is not None
        self.pacer = FreeRunning(schedule, lines) if self.free_running else Lockstep(schedule, lines)
        self.stats = [CollectorStats(64, 5) for _ in schedule.shares]
        self.reports = Reports(self.stats)
        self.replay = Replay([share.capacity for share in schedule.shares], LAYOUT)
        self.replay.rings[0]._shared.rows[:] = 0.0
        rows = max(1, schedule.max_updates * BATCH)
        self.slots = HostSlots(2, rows, LAYOUT, 1 if self.free_running else len(self.stats))
        self.sampler = UniformSampler(stream(0, "sample"))
        cfg = SimpleNamespace(seed=0, replay=SimpleNamespace(batch_size=BATCH))
        plan, shared = (
            SimpleNamespace(schedule=schedule, cfg=cfg),
            SimpleNamespace(slots=self.slots, replay=self.replay),
        )
        self.batches = DrawnBatches(plan, shared, self.pacer, KeyedDraws())
        self.pacer.wait_finished(0, Impatient())

    def tick(self, tick: int) -> tuple[float, float]:
        """Seconds of the learner's bookkeeping, and of drawing and gathering a batch where this pacing does it."""
        began = time.perf_counter()
        self.pacer.grant(tick)
        granted = time.perf_counter()
        self._collect()
        waits = time.perf_counter()
        self.pacer.wait_finished(tick, Impatient())
        counted = self.pacer.counted(tick)
        self.pacer.published(tick)
        self.reports.take_episodes(counted)
        if self.free_running:
            list(self.reports.lags(self.pacer.counted(tick - 1), counted))
        books_s = time.perf_counter() - waits + granted - began
        return books_s, self._gather(tick)

    def _collect(self) -> None:
        """The chunks that the tick waits for come in: one of whoever has most to do, or one of each."""
        left = [counters["granted"] - counters["finished"] for counters in self.counters]
        for i in [left.index(max(left))] if self.free_running else range(len(left)):
            self.counters[i]["finished"] += 1
            self.stats[i].finish_chunk(self.counters[i]["finished"], {}, ReturnStats(0, 0.0, 0.0, 0.0))

    def _gather(self, tick: int) -> float:
        began = time.perf_counter()
        if self.free_running:
            self.batches.fetch(tick, Impatient())  # the wait in it is counted twice: it is over at once
            return time.perf_counter() - began
        domain = [share.domain(tick) for share in self.schedule.shares]
        rows, ring = self.schedule.updates(tick) * BATCH, self.replay.rings[-1]
        if len(domain) == 1:
            self.slots.pack([ring], self.sampler, tick=tick, rows=rows, domain=domain)
        else:
            self.slots.pack_own(ring, self.sampler, tick=tick, rows=rows, domain=domain)
        return time.perf_counter() - began

    def free(self) -> None:
        """Give up memory and descriptors."""
        for owner in (*self.counters, *self.stats, self.replay, self.slots):
            owner.free()
        for bell in self.bells:
            bell.close()

"""The trace of a run, as the runtime has it: what is recorded, its beginning, its end and what became of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from unilab.assembly import Shared
from unilab.config import TrainConfig
from unilab.preflight import Plan
from unilab.replay import Packed
from unilab.telemetry.every import EverySeconds
from unilab.telemetry.timing import TickTimes, Timing, shares, timing_lines
from unilab.telemetry.trace import Tracer
from unilab.telemetry.trace_file import begin_trace, end_trace
from unilab.telemetry.trace_track import process_names
from unilab.workers.stats import Reports

TIMED = ("wait_batch", "update", "publish", "prefetch", "grant", "log", "save")
"""Parts of the learner's time: spans of its main thread that do not nest."""

GAUGES_S = 0.1  # between two samples of the counters


class RunTrace:
    """Begun before any worker starts.

    Args:
        plan: of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self.spec = plan.trace
        self._run_dir = plan.run_dir
        self._lost: str | None = None
        if self.spec:
            try:
                # The tracer writes these names again; until then a kill would leave a file that no viewer opens.
                begin_trace(plan.run_dir, "".join(process_names(os.getpid(), "learner")))
            except OSError as error:
                self.spec, self._lost = None, error.strerror or str(error)
        self.tracer = Tracer("learner", self.spec)
        self.tracer.instant("run", **facts(plan.cfg, plan))

    def end(self) -> tuple[Path | None, str | None]:
        """Close the file, once all other processes have ended: where it is, and what went wrong with it."""
        if self.spec is None:
            return None, self._lost and f"the trace could not be written: {self._lost}"
        try:
            path = end_trace(self._run_dir)
        except OSError as error:
            return None, f"the trace could not be written, or was removed: {error.strerror or error}"
        lost = self.tracer.lost
        return path, lost and f"the trace is cut: {lost}"


def facts(cfg: TrainConfig, plan: Plan) -> dict[str, object]:
    """What the report needs to turn ticks into speeds and to name what is slow."""
    return {
        "env": cfg.env.env,
        "algo": cfg.algo,
        "device": plan.device.type,
        "num_envs": cfg.env.num_envs,
        "rows_per_tick": plan.schedule.chunk_rows,
        "steps_per_tick": cfg.pacing.steps_per_tick,
        "utd": cfg.pacing.utd,
        "batch_size": cfg.replay.batch_size,
        "total_ticks": plan.schedule.total_ticks,
        "serial": cfg.serial,
        "pacing": cfg.pacing.pacing,
        "num_collectors": cfg.pacing.num_collectors,
    }


class RunTiming:
    """What the ticks of a run took, for its last lines; costs the loop a microsecond a tick.

    Ticks up to the last one in which the update was compiled are left out: no later one is like them.

    Args:
        tracer: the learner's.
        reports: of the collectors.
        plan: of the run.
    """

    def __init__(self, tracer: Tracer, reports: Reports, plan: Plan) -> None:
        self._tracer = tracer
        self._reports = reports
        self._plan = plan
        self._times = TickTimes()
        self._tick = self._first = 0  # last tick, and the one before the first that counts
        self._counted: Sequence[int] = ()  # newest chunk of each collector, by the last tick
        self._left_out = 0  # ticks from now on that do not count
        self._start: dict[str, dict[str, float]] = {}
        self._end: dict[str, dict[str, float]] = {}
        self._wall_s = 0.0  # from the start to the end, the last tick not finished included

    def start(self, tick: int, counted: Sequence[int]) -> None:
        """A tick begins, after this one, which counted the collectors' chunks up to these."""
        self._tick = self._first = tick
        self._counted = counted
        self._times.start()
        self._start = self._seconds()

    def tick_done(self, tick: int, counted: Sequence[int]) -> None:
        """A tick ends, which counted the collectors' chunks up to these."""
        self._tick, self._counted = tick, counted
        if self._left_out:
            self._left_out -= 1
            self.start(tick, counted)
        else:
            self._times.tick()

    def leave_out(self) -> None:
        """The present tick is like no other, nor does what came before it count.

        A collector's wait for its end is told with the chunk of the tick after next; free-running, where collectors get
        their permits one after the other, with one of those that may be ahead.
        """
        self._left_out = 3 + (self._plan.schedule.ahead or 0)

    def stop(self) -> None:
        """No tick follows; what takes time from now on belongs to none. The first call counts."""
        if not self._end:
            self._end, self._wall_s = self._seconds(), self._times.until_now()

    def lines(self) -> list[str]:
        """The summary; empty if there was no tick."""
        stats, wall_s = self._times.stats(), self._times.seconds
        if stats is None:
            return []
        self.stop()
        split = {
            role: shares({name: end - self._start[role].get(name, 0.0) for name, end in seconds.items()}, self._wall_s)
            for role, seconds in self._end.items()
        }
        schedule, first, last = self._plan.schedule, self._first, self._tick
        steps_per_s = (schedule.watermark(last) - schedule.watermark(first)) / wall_s
        updates_per_s = (schedule.updates_until(last) - schedule.updates_until(first)) / wall_s
        free = schedule.ahead is not None
        return timing_lines(Timing(stats, steps_per_s, updates_per_s, split, self._plan.cfg.serial, free))

    def _seconds(self) -> dict[str, dict[str, float]]:
        totals_ns = self._tracer.totals_ns
        collectors = self._reports.totals(self._counted)
        return {
            "learner": {name: totals_ns.get(name, 0) / 1e9 for name in TIMED},
            **{f"collector-{i}": dict(totals.seconds) for i, totals in enumerate(collectors)},
        }


class Gauges(Protocol):
    """Counter tracks of the learner."""

    def sample(self, packed: Packed) -> None:
        """The tick of this batch has ended."""


class NoGauges:
    """Tracing is off."""

    def sample(self, packed: Packed) -> None:
        """Nothing."""


class TracedGauges:
    """Ring fill, slots or (free-running) chunks in debt, policy lag and row age, ten times a second."""

    def __init__(
        self, tracer: Tracer, shared: Shared, debt: Callable[[], int | None], acted: Callable[[int], int]
    ) -> None:
        self._tracer = tracer
        self._shared = shared
        self._debt = debt
        self._acted = acted
        self._due = EverySeconds(GAUGES_S)

    def sample(self, packed: Packed) -> None:
        """See ``Gauges``; rows of uniform random actions count as version 0."""
        if not self._due.due():
            return
        replay, trace, tick = self._shared.replay, self._tracer, packed.tick
        trace.counter("ring rows", rows=replay.held)
        if (debt := self._debt()) is None:
            trace.counter("slots ready", slots=int(min(self._shared.finished) > tick))
        else:
            trace.counter("chunks in debt", chunks=debt)
        trace.counter("policy lag", versions=tick - 1 - max(self._acted(tick), 0))
        if packed.versions.size:
            trace.counter("row age", versions=float(tick - 1 - np.maximum(packed.versions, 0).mean()))


def make_gauges(trace: RunTrace, shared: Shared, debt: Callable[[], int | None], acted: Callable[[int], int]) -> Gauges:
    """Those of a run; ``debt`` is the pacer's, ``acted`` the version that collected the newest rows of a tick."""
    return TracedGauges(trace.tracer, shared, debt, acted) if trace.spec else NoGauges()

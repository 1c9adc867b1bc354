"""Builds the parts that the learner and the collector meet in, and joins them to the loop."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.pacing import COUNTERS, Pacer
from unilab.preflight import SLOTS, Plan, episode_capacity, slot_rows
from unilab.replay import HostSlots, Packed, Ring, UniformSampler
from unilab.run_state import collector_state
from unilab.rundir import write_json
from unilab.seeding import stream
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.console import Console
from unilab.telemetry.trace import Tracer
from unilab.transfer import Copier, CpuCopier, CudaCopier, Pipeline
from unilab.weights import WeightBlock
from unilab.workers import CollectorJob
from unilab.workers.stats import CollectorStats


@dataclass(frozen=True, slots=True)
class Shared:
    """What the processes of a run share; the bells are named after those who are woken by them."""

    counters: Counters
    learner: Bell
    copier: Bell
    collector: Bell
    ring: Ring
    stats: CollectorStats
    slots: HostSlots

    @property
    def stopped(self) -> bool:
        """Whether the run is over."""
        return bool(self.counters["stop"])

    def ask_stop(self) -> None:
        """Tell everyone who waits that the run is over."""
        self.counters["stop"] = 1
        for bell in (self.learner, self.copier, self.collector):
            bell.ring()


def open_shared(plan: Plan, stack: ExitStack) -> Shared:
    """Take the shared memory of a run; given up when the stack closes."""
    counters = Counters(COUNTERS)
    counters["granted"] = counters["finished"] = -1
    columns = len(EPISODE_COLUMNS) + len(plan.spec.metric_names)
    shared = Shared(
        counters=counters,
        learner=Bell(),
        copier=Bell(),
        collector=Bell(),
        ring=Ring(plan.cfg.replay.buffer_size, plan.layout),
        stats=CollectorStats(episode_capacity(plan.schedule, plan.cfg.learner.n_step), columns),
        slots=HostSlots(SLOTS, slot_rows(plan.cfg), plan.layout),
    )
    for bell in (shared.learner, shared.copier, shared.collector):
        stack.callback(bell.close)
    for owner in (shared.counters, shared.ring, shared.stats, shared.slots):
        stack.callback(owner.free)
    return shared


def collector_job(plan: Plan, shared: Shared, weights: WeightBlock) -> CollectorJob:
    """The collector's share of a run."""
    return CollectorJob(
        name="collector-0",
        env=plan.cfg.env,
        policy=plan.policy,
        schedule=plan.schedule,
        seed=plan.cfg.seed,
        threads=plan.threads.collector,
        on_nan=plan.cfg.on_nan,
        ring=shared.ring,
        slots=shared.slots,
        batch_size=plan.cfg.replay.batch_size,
        weights=weights,
        counters=shared.counters,
        stats=shared.stats,
        bell=shared.collector,
        listeners=(shared.learner, shared.copier),
        log_dir=plan.run_dir,
        trace=plan.trace,
        restart=plan.starts - 1,
        state=collector_state(plan.resume.state) if plan.resume else None,
    )


@dataclass(frozen=True, slots=True)
class ChunkBatches:
    """Batch t is packed by the collector at the end of chunk t: where the pipeline's batches come from."""

    slots: HostSlots
    pacer: Pacer

    def fetch(self, tick: int, waiter: Waiter) -> Packed:
        """Return once chunk ``tick`` is in, and so its batch packed."""
        self.pacer.wait_finished(tick, waiter)
        return self.slots.packed(tick)


def pack_batch(plan: Plan, shared: Shared, tick: int) -> None:
    """What the collector did at the end of chunk ``tick``, done again: the same bits."""
    low, high = plan.schedule.domain(tick)
    rows = plan.schedule.updates(tick) * plan.cfg.replay.batch_size
    sampler = UniformSampler(stream(plan.cfg.seed, "sample"))
    shared.slots.pack(shared.ring, sampler, tick=tick, rows=rows, low=low, high=high)


def make_pipeline(
    plan: Plan, shared: Shared, pacer: Pacer, copier: Copier, waiter: Waiter, background: Waiter, trace: Tracer
) -> Pipeline:
    """The pipeline from the host slots to the plan's device; a thread starts the copies where there are any."""
    copies = plan.device.type != "cpu" and not plan.cfg.serial
    return Pipeline(
        ChunkBatches(shared.slots, pacer),
        plan.layout,
        SLOTS,
        copier,
        waiter=waiter,
        background=background if copies else None,
        trace=trace,
    )


def make_copier(plan: Plan, shared: Shared, console: Console, trace: Tracer) -> Copier:
    """The copier for the plan's device; says so on the console and in the run directory if it cannot overlap."""
    if plan.device.type == "cpu":
        return CpuCopier(shared.slots.host)
    copier = CudaCopier(shared.slots.host, plan.device, trace if plan.trace else None)
    if copier.notice:
        console.note(copier.notice)
    write_json(plan.run_dir / "transfer.json", {"page_locked": copier.notice is None, "notice": copier.notice})
    return copier

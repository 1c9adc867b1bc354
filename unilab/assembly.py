"""Builds the parts that the learner and the collector meet in, and joins them to the loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.errors import Stopped
from unilab.interrupt import Interrupt
from unilab.pacing import COUNTERS, Chunk, Look, Pacer, SerialLockstep
from unilab.preflight import SLOTS, Plan, episode_capacity, slot_rows
from unilab.replay import HostSlots, Packed, Ring
from unilab.rundir import write_json
from unilab.shm import Bell, Counters, Peer, Waiter
from unilab.telemetry.console import Console
from unilab.telemetry.trace import Tracer
from unilab.transfer import Copier, CpuCopier, CudaCopier, Pipeline
from unilab.weights import WeightBlock
from unilab.workers import CollectorJob
from unilab.workers.collector import open_collector
from unilab.workers.stats import CollectorStats

PARK_S = 5.0  # an interrupted run waits this long for the granted chunk, then ends without it


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
        stats=CollectorStats(episode_capacity(plan.schedule), columns),
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
        ring=shared.ring,
        slots=shared.slots,
        batch_size=plan.cfg.replay.batch_size,
        weights=weights,
        counters=shared.counters,
        stats=shared.stats,
        bell=shared.collector,
        listeners=(shared.learner, shared.copier),
        trace_dir=plan.trace_dir,
        t0_ns=plan.t0_ns,
    )


def serial_pacer(
    plan: Plan, job: CollectorJob, trace: Tracer, interrupt: Interrupt, look: Look, stack: ExitStack
) -> Pacer:
    """A collector inside this process, which a grant runs for a chunk; ``look`` is called during the prefill."""
    collector = stack.enter_context(open_collector(job, Tracer(job.name)))

    def round_done() -> None:
        if interrupt.age_s() > PARK_S:
            raise Stopped("interrupted in the middle of a chunk")

    def prefill_round_done() -> None:
        round_done()
        look()

    def run_chunk(chunk: Chunk) -> None:
        # The role's own thread count: it decides the last bits of sums.
        torch.set_num_threads(plan.threads.collector)
        with trace.span("collect", chunk=chunk.number):
            collector.run(chunk, round_done if chunk.number else prefill_round_done)
        torch.set_num_threads(plan.threads.learner)

    return SerialLockstep(plan.schedule, run_chunk)


@dataclass(frozen=True, slots=True)
class ChunkBatches:
    """Batch t is packed by the collector at the end of chunk t: where the pipeline's batches come from."""

    slots: HostSlots
    pacer: Pacer

    def fetch(self, tick: int, waiter: Waiter) -> Packed:
        """Return once chunk ``tick`` is in, and so its batch packed."""
        self.pacer.wait_finished(tick, waiter)
        return self.slots.packed(tick)


def make_pipeline(
    plan: Plan, shared: Shared, pacer: Pacer, copier: Copier, waiter: Waiter, peers: Sequence[Peer], trace: Tracer
) -> Pipeline:
    """The pipeline from the host slots to the plan's device; a thread starts the copies where there are any."""
    copies = plan.device.type != "cpu" and not plan.cfg.serial
    return Pipeline(
        ChunkBatches(shared.slots, pacer),
        plan.layout,
        SLOTS,
        copier,
        waiter=waiter,
        background=Waiter(shared.copier, lambda: bool(shared.counters["stop"]), peers) if copies else None,
        trace=trace,
    )


def make_copier(plan: Plan, shared: Shared, console: Console) -> Copier:
    """The copier for the plan's device; says so on the console and in the run directory if it cannot overlap."""
    if plan.device.type == "cpu":
        return CpuCopier(shared.slots.host)
    copier = CudaCopier(shared.slots.host, plan.device)
    if copier.notice:
        console.note(copier.notice)
    write_json(plan.run_dir / "transfer.json", {"page_locked": copier.notice is None, "notice": copier.notice})
    return copier

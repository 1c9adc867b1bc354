"""Builds the parts that the learner and the collector meet in, and joins them to the loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.errors import Stopped
from unilab.interrupt import Interrupt
from unilab.pacing import COUNTERS, Chunk, Look, Pacer, Schedule, SerialLockstep
from unilab.preflight import SLOTS, Plan, episode_capacity
from unilab.replay import Packed, Ring, UniformSampler, pack
from unilab.rundir import write_json
from unilab.seeding import stream
from unilab.shm import Arrays, Bell, Counters, Field, Peer, Waiter
from unilab.telemetry.console import Console
from unilab.telemetry.trace import Tracer
from unilab.transfer import Copier, CpuCopier, CudaCopier, Pipeline
from unilab.transfer.pipeline import INLINE_BYTES
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
    packer: Bell
    collector: Bell
    ring: Ring
    stats: CollectorStats
    slots: Arrays

    def ask_stop(self) -> None:
        """Tell everyone who waits that the run is over."""
        self.counters["stop"] = 1
        for bell in (self.learner, self.packer, self.collector):
            bell.ring()


def open_shared(plan: Plan, stack: ExitStack) -> Shared:
    """Take the shared memory of a run; given up when the stack closes."""
    counters = Counters(COUNTERS)
    counters["granted"] = counters["finished"] = -1
    columns = len(EPISODE_COLUMNS) + len(plan.spec.metric_names)
    rows = max(1, plan.schedule.max_updates * plan.cfg.replay.batch_size)
    shared = Shared(
        counters=counters,
        learner=Bell(),
        packer=Bell(),
        collector=Bell(),
        ring=Ring(plan.cfg.replay.buffer_size, plan.layout),
        stats=CollectorStats(episode_capacity(plan.schedule), columns),
        slots=Arrays([Field("host", (SLOTS, rows, plan.layout.width), "float32")], "staging slots"),
    )
    for bell in (shared.learner, shared.packer, shared.collector):
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
        weights=weights,
        counters=shared.counters,
        stats=shared.stats,
        bell=shared.collector,
        listeners=(shared.learner, shared.packer),
        log_dir=plan.run_dir,
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
class RingSource:
    """Ring, sampler and pacer bound together: where the pipeline's batches come from."""

    ring: Ring
    sampler: UniformSampler
    schedule: Schedule
    pacer: Pacer
    batch_size: int

    def rows(self, tick: int) -> int:
        """Rows of batch ``tick``."""
        return self.schedule.updates(tick) * self.batch_size

    def wait(self, tick: int, waiter: Waiter) -> None:
        """Return once chunk ``tick`` is in."""
        self.pacer.wait_finished(tick, waiter)

    def pack(self, tick: int, out: NDArray[np.float32]) -> Packed:
        """Gather batch ``tick``."""
        low, high = self.schedule.domain(tick)
        return pack(self.ring, self.sampler, out, tick=tick, low=low, high=high)


def make_pipeline(
    plan: Plan, shared: Shared, pacer: Pacer, copier: Copier, waiter: Waiter, peers: Sequence[Peer], trace: Tracer
) -> Pipeline:
    """The pipeline from the ring to the plan's device; small batches on the CPU are packed without a thread."""
    host = shared.slots.host
    sampler = UniformSampler(stream(plan.cfg.seed, "sample"))
    inline = plan.cfg.serial or (plan.device.type == "cpu" and host[0].nbytes <= INLINE_BYTES)
    packer = None if inline else Waiter(shared.packer, lambda: bool(shared.counters["stop"]), peers)
    return Pipeline(
        RingSource(shared.ring, sampler, plan.schedule, pacer, plan.cfg.replay.batch_size),
        plan.layout,
        host,
        copier,
        waiter=waiter,
        packer=packer,
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

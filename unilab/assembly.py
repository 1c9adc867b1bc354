"""Builds the parts that the learner and the collectors meet in, and joins them to the loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.pacing import COUNTERS, IDLE, FreeRunning, Line, Lockstep, Pacer
from unilab.preflight import SLOTS, Plan, episode_capacity, packers, slot_rows, told_chunks
from unilab.replay import Domain, HostSlots, Packed, Replay, Ring, UniformSampler
from unilab.run_state import collector_states
from unilab.rundir import write_json
from unilab.sampling import ByPriority, KeyedDraws, Sampling
from unilab.seeding import stream
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.console import Console
from unilab.telemetry.trace import Tracer
from unilab.transfer import Copier, CpuCopier, CudaCopier, Pipeline
from unilab.weights import WeightBlock
from unilab.workers import CollectorJob
from unilab.workers.stats import CollectorStats, Reports


@dataclass(frozen=True, slots=True)
class Channel:
    """What the learner shares with one collector."""

    index: int
    counters: Counters
    bell: Bell  # of the collector
    ring: Ring
    stats: CollectorStats


@dataclass(frozen=True, slots=True)
class Shared:
    """What the processes of a run share; the bells are named after those who are woken by them."""

    channels: tuple[Channel, ...]
    learner: Bell
    copier: Bell
    replay: Replay
    slots: HostSlots

    @property
    def stopped(self) -> bool:
        """Whether the run is over."""
        return bool(self.channels[0].counters["stop"])

    @property
    def reports(self) -> Reports:
        """What the collectors report."""
        return Reports([channel.stats for channel in self.channels])

    @property
    def finished(self) -> list[int]:
        """Newest chunk of each collector whose rows are all in."""
        return [channel.counters["finished"] for channel in self.channels]

    def ask_stop(self) -> None:
        """Tell everyone who waits that the run is over."""
        for channel in self.channels:
            channel.counters["stop"] = 1
        for bell in (self.learner, self.copier, *(channel.bell for channel in self.channels)):
            bell.ring()


def open_shared(plan: Plan, stack: ExitStack) -> Shared:
    """Take the shared memory of a run; given up when the stack closes."""
    replay = Replay([share.capacity for share in plan.schedule.shares], plan.layout)
    shared = Shared(
        channels=tuple(_open_channel(plan, ring, stack) for ring in replay.rings),
        learner=Bell(),
        copier=Bell(),
        replay=replay,
        slots=HostSlots(
            SLOTS, slot_rows(plan.cfg), plan.layout, packers(plan.schedule), drawn=plan.cfg.replay.sampler == "per"
        ),
    )
    for bell in (shared.learner, shared.copier):
        stack.callback(bell.close)
    for owner in (shared.replay, shared.slots):
        stack.callback(owner.free)
    return shared


def _open_channel(plan: Plan, ring: Ring, stack: ExitStack) -> Channel:
    share, columns = plan.schedule.shares[ring.index], len(EPISODE_COLUMNS) + len(plan.spec.metric_names)
    channel = Channel(
        index=ring.index,
        counters=Counters(COUNTERS),
        bell=Bell(),
        ring=ring,
        stats=CollectorStats(episode_capacity(share, plan.cfg.learner.n_step), columns, told_chunks(share)),
    )
    channel.counters["granted"] = channel.counters["finished"] = -1
    channel.counters["acting"] = IDLE
    stack.callback(channel.bell.close)
    for owner in (channel.counters, channel.stats):
        stack.callback(owner.free)
    return channel


def collector_jobs(plan: Plan, shared: Shared, weights: WeightBlock) -> list[CollectorJob]:
    """Each collector's share of a run."""
    return [_collector_job(plan, shared, weights, channel) for channel in shared.channels]


def _collector_job(plan: Plan, shared: Shared, weights: WeightBlock, channel: Channel) -> CollectorJob:
    cfg, states = plan.cfg, collector_states(plan.resume.state) if plan.resume else None
    return CollectorJob(
        index=channel.index,
        env=replace(cfg.env, num_envs=plan.schedule.shares[channel.index].num_envs),
        policy=plan.policy,
        schedule=plan.schedule,
        drop_lag=cfg.pacing.max_policy_lag if cfg.pacing.lag_action == "drop" else None,
        seed=cfg.seed,
        threads=plan.threads.collector,
        on_nan=cfg.on_nan,
        ring=channel.ring,
        slots=shared.slots,
        batch_size=cfg.replay.batch_size,
        drawn=cfg.replay.sampler == "per",
        weights=weights,
        counters=channel.counters,
        stats=channel.stats,
        bell=channel.bell,
        listeners=(shared.learner, shared.copier),
        log_dir=plan.run_dir,
        trace=plan.trace,
        restart=plan.starts - 1,
        state=states[channel.index] if states else None,
    )


def make_pacer(plan: Plan, lines: Sequence[Line]) -> Pacer:
    """How the learner paces the collectors at the other ends of these lines."""
    pacing = plan.cfg.pacing
    if pacing.pacing == "lockstep":
        return Lockstep(plan.schedule, lines)
    return FreeRunning(
        plan.schedule,
        lines,
        tick=int(plan.resume.state["tick"]) if plan.resume else 0,
        counted=plan.resume.state["counted"] if plan.resume else (),
        wait_for_lag=pacing.max_policy_lag if pacing.lag_action == "wait" else None,
    )


class ChunkBatches:
    """Batch t is packed by the collectors at the end of chunk t: where the pipeline's batches come from.

    Args:
        slots: that they pack into.
        pacer: says when.
        sampling: the learner's part in drawing.
    """

    def __init__(self, slots: HostSlots, pacer: Pacer, sampling: Sampling) -> None:
        self._slots = slots
        self._pacer = pacer
        self._sampling = sampling
        self._weights: NDArray[np.float32] | None = None  # of the batch that was asked for

    def ask(self, tick: int) -> None:
        """See ``Source``."""
        self._weights = self._sampling.ask(tick)

    def fetch(self, tick: int, waiter: Waiter) -> Packed:
        """Return once chunk ``tick`` is in, and so its batch packed."""
        self._pacer.wait_finished(tick, waiter)
        self._pack(tick)
        packed = self._slots.packed(tick)
        return packed if self._weights is None else replace(packed, weights=self._weights)

    def _pack(self, tick: int) -> None:
        """It was packed with its chunk."""


class DrawnBatches(ChunkBatches):
    """Free-running: a batch is packed here; a uniform one is drawn from the rows that are in when it is wanted."""

    def __init__(self, plan: Plan, shared: Shared, pacer: Pacer, sampling: Sampling) -> None:
        super().__init__(shared.slots, pacer, sampling)
        self._plan = plan
        self._shared = shared
        self._sampler = make_sampler(plan)

    def _pack(self, tick: int) -> None:
        if self._weights is not None:
            pack_drawn(self._plan, self._shared, tick)
            return
        shares = self._plan.schedule.shares
        domain = [
            (share.oldest(reach - 1), share.watermark(finished))
            for share, reach, finished in zip(shares, self._pacer.reach(tick), self._pacer.counted(tick), strict=True)
        ]
        pack_batch(self._plan, self._shared, self._sampler, tick, domain)


def pack_batch(plan: Plan, shared: Shared, sampler: UniformSampler, tick: int, domain: Domain) -> None:
    """Draw and pack batch ``tick`` in this process: in lockstep the bits that the collectors would pack."""
    rows = plan.schedule.updates(tick) * plan.cfg.replay.batch_size
    shared.slots.pack(shared.replay.rings, sampler, tick=tick, rows=rows, domain=domain)


def pack_drawn(plan: Plan, shared: Shared, tick: int) -> None:
    """Pack in this process the rows that the learner drew for a batch."""
    schedule = plan.schedule
    rows = schedule.updates(tick) * plan.cfg.replay.batch_size
    shared.slots.pack_cells(shared.replay.rings, tick=tick, rows=rows, watermark=schedule.watermark(tick))


def make_sampling(plan: Plan, shared: Shared, pacer: Pacer) -> Sampling:
    """Who decides on the rows of the run's batches."""
    cfg, rings = plan.cfg.replay, shared.replay.rings
    if cfg.sampler == "uniform":
        return KeyedDraws()
    return ByPriority(cfg, plan.schedule, rings, shared.slots, pacer, make_sampler(plan), cfg.batch_size)


def make_sampler(plan: Plan) -> UniformSampler:
    """What the run's batches are drawn with, in whichever process."""
    return UniformSampler(stream(plan.cfg.seed, "sample"))


def make_pipeline(
    plan: Plan,
    shared: Shared,
    pacer: Pacer,
    sampling: Sampling,
    copier: Copier,
    waiter: Waiter,
    background: Waiter,
    trace: Tracer,
) -> Pipeline:
    """The pipeline from the host slots to the plan's device; a thread starts the copies where there are any."""
    copies = plan.device.type != "cpu" and not plan.cfg.serial
    return Pipeline(
        ChunkBatches(shared.slots, pacer, sampling)
        if plan.schedule.ahead is None
        else DrawnBatches(plan, shared, pacer, sampling),
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

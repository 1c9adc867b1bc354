"""The collectors as the learner's process has them: spawned and supervised, or in this process for a debugger."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import torch

from unilab.assembly import Channel, Shared, make_pacer
from unilab.errors import Stopped, WorkerDied
from unilab.interrupt import Interrupt
from unilab.pacing import IDLE, PHASES, Chunk, Line, Look, Pacer, SerialLockstep
from unilab.preflight import Plan
from unilab.shm import Counters, Peer, Waiter
from unilab.telemetry.trace import Tracer
from unilab.workers import Collector, CollectorJob, Worker, collector_main
from unilab.workers.collector import open_collector
from unilab.workers.plain import Plain

T = TypeVar("T")

STOP_S = 3.0  # workers that were asked to stop are killed after this time


class Crew(Protocol):
    """What the runtime does with the collectors of a run, all together."""

    restarts: int
    """How often one of them was replaced."""

    @property
    def pids(self) -> list[int]:
        """Of their processes; empty where they are in this one, or were stopped."""

    @property
    def pacer(self) -> Pacer:
        """Grants their chunks."""

    def watched_by(self, *waiters: Waiter) -> None:
        """These waiters depend on the collectors, also on those that replace them."""

    def then(self, replaced: Callable[[], None]) -> None:
        """What is to be called whenever one was replaced."""

    def wait_ready(self, waiter: Waiter) -> bool:
        """Return once all envs are built: whether they go on with the episodes of earlier collectors."""

    def states(self, waiter: Waiter, limit_s: float | None = None) -> list[Mapping[str, Any] | None]:
        """The state of each between two chunks; None in the middle of one, or after its end.

        Raises:
            WorkerDied: one died, or did not answer within the limit (None: the stall limit).
        """

    def surviving(self, work: Callable[[], T]) -> T:
        """Do something that waits for the collectors; replace those that die meanwhile as often as is allowed."""

    @property
    def alive(self) -> bool:
        """Whether they may still append rows."""

    def stop(self) -> None:
        """End them, so that nobody appends to the ring any more; may be called twice."""

    def kill(self) -> None:
        """End them at once; safe in a signal handler."""


class SpawnedCollectors:
    """Processes of their own.

    Args:
        plan: of the run.
        shared: memory and bells.
        jobs: the share of each.
        note: takes a message for the console.
        interrupted: whether the run was asked to stop; its collectors are then not replaced.
        output: file of what they print; None: where this process prints.
    """

    def __init__(
        self,
        plan: Plan,
        shared: Shared,
        jobs: Sequence[CollectorJob],
        note: Callable[[str], None],
        interrupted: Callable[[], bool],
        output: Path | None,
    ) -> None:
        self._limit = plan.cfg.max_restarts
        self._shared = shared
        self._note = note
        self._interrupted = interrupted
        self._replaced: Callable[[], None] = lambda: None
        self._waiters: Sequence[Waiter] = ()
        self.restarts = 0
        channels = shared.channels
        self._members = [_Member(plan, shared, c, job, output) for c, job in zip(channels, jobs, strict=True)]
        self.pacer: Pacer = make_pacer(plan, [member.line for member in self._members])

    @property
    def pids(self) -> list[int]:
        """See ``Crew``."""
        return [member.pid for member in self._members if member.alive]

    def watched_by(self, *waiters: Waiter) -> None:
        """See ``Crew``."""
        self._waiters = waiters
        peers = [peer for member in self._members for peer in member.peers()]
        for waiter in waiters:
            waiter.watch(peers)

    def then(self, replaced: Callable[[], None]) -> None:
        """See ``Crew``."""
        self._replaced = replaced

    def wait_ready(self, waiter: Waiter) -> bool:
        """See ``Crew``."""
        ready = [member.wait_ready(waiter) for member in self._members]
        return all(ready)

    def states(self, waiter: Waiter, limit_s: float | None = None) -> list[Mapping[str, Any] | None]:
        """See ``Crew``."""
        return [member.state(waiter, limit_s) for member in self._members]

    def surviving(self, work: Callable[[], T]) -> T:
        """See ``Crew``."""
        while True:
            try:
                self._replace_lost()
                return work()
            except WorkerDied as error:
                if self.restarts >= self._limit or self._interrupted() or not (member := self._meant_by(error)):
                    raise
                self.restarts += 1
                self._note(
                    f"{error}\ncollector restart {self.restarts} of {self._limit}: "
                    f"the envs of {member.name} start new episodes"
                )
                member.lost = True  # its successor may die too, before it is ready

    @property
    def alive(self) -> bool:
        """See ``Crew``."""
        return any(member.alive for member in self._members)

    def stop(self) -> None:
        """See ``Crew``."""
        if self.alive:
            self._shared.ask_stop()
            end = time.monotonic() + STOP_S
            for member in self._members:
                member.stop(max(0.0, end - time.monotonic()))

    def kill(self) -> None:
        """See ``Crew``."""
        for member in self._members:
            member.kill()

    def _meant_by(self, error: WorkerDied) -> _Member | None:
        """The collector that an error is about."""
        name = (error.worker or "").partition(" ")[0]
        return next((member for member in self._members if member.name == name), None)

    def _replace_lost(self) -> None:
        lost = [member for member in self._members if member.lost]
        for member in lost:
            member.begin_replacement()
        if lost:
            self.watched_by(*self._waiters)
        for member in self._members:
            if member.starting:
                member.wait_ready(self._waiters[0])
                member.starting = False
                self._replaced()


class _Member:
    """One spawned collector, and the ones that replace it."""

    def __init__(self, plan: Plan, shared: Shared, channel: Channel, job: CollectorJob, output: Path | None) -> None:
        self._plan = plan
        self._channel = channel
        self._bell = shared.learner
        self._output = output
        self.lost = False
        """It has died or hangs, and is to be replaced."""
        self.starting = False
        """It replaces another, and has not said yet that its envs are built."""
        self._start(job)
        self.line = Line(channel.counters, channel.bell, plan.cfg.pacing.stall_limit_s, self._who())

    @property
    def name(self) -> str:
        """Of the process."""
        return self._job.name

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._worker.pid

    @property
    def alive(self) -> bool:
        """Whether it has not been stopped from here."""
        return self._worker.alive

    def peers(self) -> Sequence[Peer]:
        """What to watch; nothing once it was stopped."""
        return self._worker.peers() if self._worker.alive else ()

    def wait_ready(self, waiter: Waiter) -> bool:
        """See ``Crew``."""
        limit_s = self._plan.cfg.pacing.start_limit_s
        return bool(self._worker.wait_message("ready", waiter, "its envs (--start-limit)", limit_s, self._doing))

    def state(self, waiter: Waiter, limit_s: float | None) -> Mapping[str, Any] | None:
        """See ``Crew``."""
        if not self._worker.alive:
            return None
        asked, answered = self.line.ask_state(), -1
        patience_s = self._plan.cfg.pacing.stall_limit_s if limit_s is None else limit_s
        state: Mapping[str, Any] = {}
        while answered != asked:  # one that was asked before another collector died may have answered since
            answered, state = self._worker.wait_message("state", waiter, "its state", patience_s, self._doing)
        return state

    def begin_replacement(self) -> None:
        """Start a new collector, which does the unfinished chunk from its beginning, with fresh episodes."""
        self._worker.stop(0.0)
        self.lost, self.starting = False, True
        channel, finished = self._channel, self._channel.counters["finished"]
        share = self._plan.schedule.shares[channel.index]
        channel.ring.rewind(share.watermark(finished) if finished >= 0 else 0)
        channel.stats.rewind(finished)
        channel.counters["acting"] = IDLE
        self._start(replace(self._job, restart=self._job.restart + 1, state=None))
        self.line.who = self._who()

    def stop(self, grace_s: float) -> None:
        """End it, after it was asked to."""
        self._worker.stop(grace_s)

    def kill(self) -> None:
        """End it at once."""
        self._worker.kill()

    def _start(self, job: CollectorJob) -> None:
        self._job = job
        sent = replace(job, state=cast(Any, Plain(job.state)))
        cores = self._plan.cores.collectors[job.index] if self._plan.cores else None
        self._worker = Worker(
            job.name, collector_main, (sent,), threads=job.threads, bell=self._bell, output=self._output, cores=cores
        )

    def _doing(self) -> str:
        return PHASES[self._channel.counters["phase"]]

    def _who(self) -> str:
        return f"{self._worker.name} (pid {self._worker.pid})"


class SerialCollectors:
    """In this process: a grant runs the chunk. Their death is ours, so there is nothing to supervise.

    Args:
        plan: of the run.
        jobs: the share of each.
        trace: of this process; span ``collect``.
        interrupt: an interrupted chunk goes on for the shutdown timeout at most.
        look: called during the prefill.
        stack: closes the envs.
    """

    def __init__(
        self,
        plan: Plan,
        jobs: Sequence[CollectorJob],
        trace: Tracer,
        interrupt: Interrupt,
        look: Look,
        stack: ExitStack,
    ) -> None:
        self._guests = [Tracer(job.name, job.trace, guest=True) for job in jobs]
        self._collectors: list[Collector] = []
        for job, guest in zip(jobs, self._guests, strict=True):
            stack.callback(guest.close)
            self._collectors.append(stack.enter_context(open_collector(job, guest)))
        self._counters = [job.counters for job in jobs]
        self._plan = plan
        self._trace = trace
        self._interrupt = interrupt
        self._look = look
        self.restarts = 0
        self.pacer = SerialLockstep(plan.schedule, self._run_chunk)

    @property
    def pids(self) -> list[int]:
        """They are this process."""
        return []

    def watched_by(self, *waiters: Waiter) -> None:
        """Nobody else could die."""

    def then(self, replaced: Callable[[], None]) -> None:
        """None ever is."""

    def wait_ready(self, waiter: Waiter) -> bool:
        """See ``Crew``."""
        return all(collector.continued for collector in self._collectors)

    def states(self, waiter: Waiter, limit_s: float | None = None) -> list[Mapping[str, Any] | None]:
        """See ``Crew``."""
        return [
            collector.state_dict() if counters["granted"] == counters["finished"] else None
            for collector, counters in zip(self._collectors, self._counters, strict=True)
        ]

    def surviving(self, work: Callable[[], T]) -> T:
        """Do it."""
        return work()

    @property
    def alive(self) -> bool:
        """They append only while a grant lasts."""
        return False

    def stop(self) -> None:
        """Nothing runs."""

    def kill(self) -> None:
        """Nothing runs."""

    def _run_chunk(self, chunk: Chunk) -> None:
        # The role's own thread count: it decides the last bits of sums.
        torch.set_num_threads(self._plan.threads.collector)
        for counters in self._counters:
            counters["granted"] = chunk.number
        for collector, guest, counters in zip(self._collectors, self._guests, self._counters, strict=True):
            guest.at(chunk.number, chunk.number - 1)
            with self._trace.span("collect", chunk=chunk.number), guest.span("chunk", chunk=chunk.number):
                collector.run(chunk, self._round_done if chunk.number else partial(self._prefill_round_done, counters))
            counters["finished"] = chunk.number
        torch.set_num_threads(self._plan.threads.learner)

    def _round_done(self) -> None:
        if self._interrupt.age_s() > self._plan.cfg.pacing.shutdown_timeout_s:
            raise Stopped("interrupted in the middle of a chunk")

    def _prefill_round_done(self, counters: Counters) -> None:
        counters["rounds"] += 1
        self._round_done()
        self._look()

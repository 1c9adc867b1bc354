"""The collector as the learner's process has it: spawned and supervised, or in this process for a debugger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import torch

from unilab.assembly import Shared
from unilab.errors import Stopped, WorkerDied
from unilab.interrupt import Interrupt
from unilab.pacing import PHASES, Chunk, Lockstep, Look, Pacer, SerialLockstep
from unilab.preflight import Plan
from unilab.shm import Peer, Waiter
from unilab.telemetry.trace import Tracer
from unilab.workers import Collector, CollectorJob, Worker, collector_main
from unilab.workers.collector import open_collector
from unilab.workers.plain import Plain

T = TypeVar("T")

STOP_S = 3.0  # a worker that was asked to stop is killed after this time


class CollectorHandle(Protocol):
    """What the runtime does with a collector."""

    restarts: int
    """How often it was replaced."""

    @property
    def pid(self) -> int | None:
        """Of its process; None where that is this one, or it was stopped."""

    @property
    def pacer(self) -> Pacer:
        """Grants its chunks."""

    def watched_by(self, *waiters: Waiter) -> None:
        """These waiters depend on the collector, also on one that replaces it."""

    def then(self, replaced: Callable[[], None]) -> None:
        """What is to be called whenever it was replaced."""

    def wait_ready(self, waiter: Waiter) -> bool:
        """Return once its envs are built: whether they go on with the episodes of an earlier collector."""

    def state(self, waiter: Waiter, limit_s: float | None = None) -> Mapping[str, Any] | None:
        """Its state between two chunks; None in the middle of one, or after its end.

        Raises:
            WorkerDied: it died, or did not answer within the limit (None: the stall limit).
        """

    def surviving(self, work: Callable[[], T]) -> T:
        """Do something that waits for the collector; replace one that dies meanwhile as often as is allowed."""

    @property
    def alive(self) -> bool:
        """Whether it may still append rows."""

    def stop(self) -> None:
        """End it, so that nobody appends to the ring any more; may be called twice."""

    def kill(self) -> None:
        """End it at once; safe in a signal handler."""


class SpawnedCollector:
    """A process of its own.

    Args:
        plan: of the run.
        shared: memory and bells.
        job: its share.
        note: takes a message for the console.
        interrupted: whether the run was asked to stop; its collector is then not replaced.
        output: file of what it prints; None: where this process prints.
    """

    def __init__(
        self,
        plan: Plan,
        shared: Shared,
        job: CollectorJob,
        note: Callable[[str], None],
        interrupted: Callable[[], bool],
        output: Path | None,
    ) -> None:
        self._plan = plan
        self._shared = shared
        self._note = note
        self._interrupted = interrupted
        self._output = output
        self._replaced: Callable[[], None] = lambda: None
        self._waiters: Sequence[Waiter] = ()
        self.restarts = 0
        self._lost = False  # it has died or hangs, and is to be replaced
        self._start(job)
        self.pacer = Lockstep(shared.counters, shared.collector, plan.cfg.pacing.stall_limit_s, self._who())

    @property
    def pid(self) -> int | None:
        """See ``CollectorHandle``."""
        return self._worker.pid if self._worker.alive else None

    def watched_by(self, *waiters: Waiter) -> None:
        """See ``CollectorHandle``."""
        self._waiters = waiters
        for waiter in waiters:
            waiter.watch(self.peers())

    def peers(self) -> Sequence[Peer]:
        """What to watch; none once it was stopped."""
        return self._worker.peers() if self._worker.alive else ()

    def then(self, replaced: Callable[[], None]) -> None:
        """See ``CollectorHandle``."""
        self._replaced = replaced

    def wait_ready(self, waiter: Waiter) -> bool:
        """See ``CollectorHandle``."""
        limit_s = self._plan.cfg.pacing.start_limit_s
        return bool(self._worker.wait_message("ready", waiter, "its envs (--start-limit)", limit_s, self._doing))

    def state(self, waiter: Waiter, limit_s: float | None = None) -> Mapping[str, Any] | None:
        """See ``CollectorHandle``."""
        if not self._worker.alive:
            return None
        self.pacer.ask_state()
        patience_s = self._plan.cfg.pacing.stall_limit_s if limit_s is None else limit_s
        state: Mapping[str, Any] = self._worker.wait_message("state", waiter, "its state", patience_s, self._doing)
        return state

    def surviving(self, work: Callable[[], T]) -> T:
        """See ``CollectorHandle``."""
        while True:
            try:
                if self._lost:
                    self._replace()
                return work()
            except WorkerDied as error:
                limit = self._plan.cfg.max_restarts
                if self.restarts >= limit or self._interrupted():
                    raise
                self.restarts += 1
                self._note(f"{error}\ncollector restart {self.restarts} of {limit}: its envs start new episodes")
                self._lost = True  # its successor may die too, before it is ready

    @property
    def alive(self) -> bool:
        """See ``CollectorHandle``."""
        return self._worker.alive

    def stop(self) -> None:
        """See ``CollectorHandle``."""
        if self._worker.alive:
            self._shared.ask_stop()
            self._worker.stop(STOP_S)

    def kill(self) -> None:
        """See ``CollectorHandle``."""
        self._worker.kill()

    def _start(self, job: CollectorJob) -> None:
        self._job = job
        sent = replace(job, state=cast(Any, Plain(job.state)))
        self._worker = Worker(
            job.name,
            collector_main,
            (sent,),
            threads=job.threads,
            bell=self._shared.learner,
            output=self._output,
        )

    def _replace(self) -> None:
        """A new collector does the unfinished chunk from its beginning, with fresh episodes."""
        self._worker.stop(0.0)
        shared, finished = self._shared, self._shared.counters["finished"]
        shared.ring.rewind(self._plan.schedule.watermark(finished) if finished >= 0 else 0)
        shared.stats.rewind(finished)
        self._start(replace(self._job, restart=self._job.restart + 1, state=None))
        self.pacer.who = self._who()
        self.watched_by(*self._waiters)
        self.wait_ready(self._waiters[0])
        self._lost = False
        self._replaced()

    def _doing(self) -> str:
        return PHASES[self._shared.counters["phase"]]

    def _who(self) -> str:
        return f"{self._worker.name} (pid {self._worker.pid})"


class SerialCollector:
    """In this process: a grant runs the chunk. Its death is ours, so there is nothing to supervise.

    Args:
        plan: of the run.
        job: its share.
        trace: of this process; span ``collect``.
        interrupt: an interrupted chunk goes on for the shutdown timeout at most.
        look: called during the prefill.
        stack: closes the envs.
    """

    def __init__(
        self, plan: Plan, job: CollectorJob, trace: Tracer, interrupt: Interrupt, look: Look, stack: ExitStack
    ) -> None:
        guest = Tracer(job.name, job.trace, guest=True)
        stack.callback(guest.close)
        self._collector: Collector = stack.enter_context(open_collector(job, guest))
        self._counters = job.counters
        self._plan = plan
        self._trace = trace
        self._guest = guest
        self._interrupt = interrupt
        self._look = look
        self.restarts = 0
        self.pacer = SerialLockstep(plan.schedule, self._run_chunk)

    @property
    def pid(self) -> None:
        """It is this process."""

    def watched_by(self, *waiters: Waiter) -> None:
        """Nobody else could die."""

    def then(self, replaced: Callable[[], None]) -> None:
        """It never is."""

    def wait_ready(self, waiter: Waiter) -> bool:
        """See ``CollectorHandle``."""
        return self._collector.continued

    def state(self, waiter: Waiter, limit_s: float | None = None) -> Mapping[str, Any] | None:
        """See ``CollectorHandle``."""
        between = self._counters["granted"] == self._counters["finished"]
        return self._collector.state_dict() if between else None

    def surviving(self, work: Callable[[], T]) -> T:
        """Do it."""
        return work()

    @property
    def alive(self) -> bool:
        """It appends only while a grant lasts."""
        return False

    def stop(self) -> None:
        """Nothing runs."""

    def kill(self) -> None:
        """Nothing runs."""

    def _run_chunk(self, chunk: Chunk) -> None:
        # The role's own thread count: it decides the last bits of sums.
        torch.set_num_threads(self._plan.threads.collector)
        self._counters["granted"] = chunk.number
        self._guest.at(chunk.number, chunk.number - 1)
        with self._trace.span("collect", chunk=chunk.number), self._guest.span("chunk", chunk=chunk.number):
            self._collector.run(chunk, self._round_done if chunk.number else self._prefill_round_done)
        torch.set_num_threads(self._plan.threads.learner)
        self._counters["finished"] = chunk.number

    def _round_done(self) -> None:
        if self._interrupt.age_s() > self._plan.cfg.pacing.shutdown_timeout_s:
            raise Stopped("interrupted in the middle of a chunk")

    def _prefill_round_done(self) -> None:
        self._round_done()
        self._look()

"""The evaluator as the learner's process has it: a process of its own, or this one in serial mode.

It has a weight block of its own, written only while it is idle: what it evaluates does not change under it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

import torch

from unilab.errors import Stopped, WaitTimeout, WorkerDied
from unilab.pacing import Pulse
from unilab.preflight import Plan
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.trace import Tracer
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import EvaluationJob, EvaluationResult, Worker, evaluator_main
from unilab.workers.evaluator import COUNTERS, run_evaluation

STOP_S = 3.0
_LOOK_S = 1.0


class Evaluator(Protocol):
    """One evaluation at a time."""

    def begin(self, version: int) -> None:
        """Evaluate the present weights under this version, greater than any before; the one before is done."""

    def ready(self) -> bool:
        """Whether ``wait`` would return at once.

        Raises:
            WorkerDied: the evaluator failed, ended or hangs.
        """

    def wait(self, limit_s: float | None = None) -> EvaluationResult:
        """The result of what was begun.

        Args:
            limit_s: an interrupt has come already: go on waiting, but no longer than this; None: as ever.

        Raises:
            WorkerDied: the evaluator failed, ended or hangs.
            WaitTimeout: not within ``limit_s``.
            Stopped: the run was asked to stop.
        """

    def close(self) -> None:
        """End it; may be called twice."""


class SpawnedEvaluator:
    """A process, started by the first evaluation.

    Args:
        plan: of the run.
        state: weights, as published.
        bell: this process's own.
        stopped: whether the run was asked to stop; who makes it true rings ``bell``.
        started: told of the process.
        output: file of what it prints; None: where this process prints.
    """

    def __init__(
        self,
        plan: Plan,
        state: FlatState,
        bell: Bell,
        stopped: Callable[[], bool],
        started: Callable[[Worker], None],
        output: Path | None,
    ) -> None:
        self._plan = plan
        self._state = state
        self._bell = bell
        self._stopped = stopped
        self._started = started
        self._output = output
        self._stack = ExitStack()
        self._worker: Worker | None = None

    def begin(self, version: int) -> None:
        """See ``Evaluator``."""
        if self._worker is None:
            self._open()
        self._writer.publish(version)
        self._begun = self._counters["rounds"]
        self._pulse = Pulse(lambda: self._counters["rounds"])
        self._counters["version"] = version
        self._counters["asked"] += 1
        self._own.ring()

    def ready(self) -> bool:
        """See ``Evaluator``."""
        assert self._worker is not None
        if self._worker.received("result"):
            return True
        if trouble := self._worker.failure():
            raise trouble
        # Imports and the making of envs are no stall.
        pacing, begun = self._plan.cfg.pacing, self._counters["rounds"] == self._begun
        limit_s = pacing.start_limit_s if begun else pacing.stall_limit_s
        if self._pulse.silent_s() >= limit_s:
            raise WorkerDied(
                f"no data from evaluator-0 (pid {self._worker.pid}) for {limit_s:g} s, while waiting for "
                f"{'its first step (--start-limit)' if begun else 'an evaluation'}: it is stuck in its env or stopped; "
                "if its steps are that slow, raise --stall-limit"
            )
        return False

    def wait(self, limit_s: float | None = None) -> EvaluationResult:
        """See ``Evaluator``."""
        assert self._worker is not None
        worker, left_s = self._worker, math.inf if limit_s is None else limit_s
        waiter = Waiter(self._bell, self._stopped if limit_s is None else lambda: False, worker.peers())
        while not self.ready():
            if left_s <= 0:
                raise WaitTimeout(f"waited {limit_s:g} s for an evaluation")
            with suppress(WaitTimeout):
                waiter.wait(lambda: worker.received("result"), "an evaluation", min(_LOOK_S, left_s))
            left_s -= _LOOK_S
        result: EvaluationResult = worker.take_message("result")
        return result

    def close(self) -> None:
        """See ``Evaluator``."""
        self._stack.close()

    def _open(self) -> None:
        plan, stack = self._plan, self._stack
        block = WeightBlock(self._state.manifest, "evaluator weights")
        stack.callback(block.free)
        self._writer = WeightWriter(block, self._state)
        self._counters = Counters(COUNTERS, "evaluator counters")
        stack.callback(self._counters.free)
        self._own = Bell()
        stack.callback(self._own.close)
        job = _job(plan, block)
        self._worker = Worker(
            "evaluator-0",
            evaluator_main,
            (job, self._counters, self._own),
            threads=job.threads,
            bell=self._bell,
            output=self._output,
            cores=plan.cores.all if plan.cores else None,
        )
        stack.callback(self._worker.stop, STOP_S)
        stack.callback(self._ask_stop)
        self._started(self._worker)

    def _ask_stop(self) -> None:
        self._counters["stop"] = 1
        self._own.ring()


class SerialEvaluator:
    """In this process, when the result is asked for.

    Args:
        plan: of the run.
        state: weights, as published.
        stopped: whether the run was asked to stop.
    """

    def __init__(self, plan: Plan, state: FlatState, stopped: Callable[[], bool]) -> None:
        self._plan = plan
        self._block = WeightBlock(state.manifest, "evaluator weights")
        self._writer = WeightWriter(self._block, state)
        self._stopped = stopped
        self._version = -1

    def begin(self, version: int) -> None:
        """See ``Evaluator``."""
        self._writer.publish(version)
        self._version = version

    def ready(self) -> bool:
        """See ``Evaluator``."""
        return True

    def wait(self, limit_s: float | None = None) -> EvaluationResult:
        """See ``Evaluator``."""
        job = _job(self._plan, self._block)
        began = time.monotonic()

        def round_done() -> None:
            if limit_s is None and self._stopped():
                raise Stopped("interrupted during an evaluation")
            if limit_s is not None and time.monotonic() - began > limit_s:
                raise WaitTimeout(f"waited {limit_s:g} s for an evaluation")

        guest = Tracer("evaluator-0", self._plan.trace, guest=True)
        torch.set_num_threads(job.threads)
        try:
            return run_evaluation(job, self._version, round_done, guest)
        finally:
            guest.close()
            torch.set_num_threads(self._plan.threads.learner)

    def close(self) -> None:
        """See ``Evaluator``."""
        self._block.free()


def _job(plan: Plan, block: WeightBlock) -> EvaluationJob:
    return EvaluationJob(
        env=plan.cfg.env,
        policy=plan.policy,
        weights=block,
        seed=plan.cfg.seed,
        episodes=plan.cfg.evaluation.eval_episodes,
        max_episode_steps=plan.cfg.evaluation.eval_max_steps,
        threads=plan.threads.collector,
        on_nan=plan.cfg.on_nan,
        log_dir=plan.run_dir,
        trace=plan.trace,
    )

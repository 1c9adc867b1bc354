"""The evaluation of a run's final weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import torch

from unilab.errors import Stopped
from unilab.pacing import wait_while_alive
from unilab.preflight import Plan
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.trace import Tracer
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import EvaluationJob, EvaluationResult, Worker, evaluator_main
from unilab.workers.evaluator import run_evaluation

STOP_S = 3.0


def evaluate_final(
    plan: Plan,
    state: FlatState,
    version: int,
    bell: Bell,
    started: Callable[[Worker], None],
    stopped: Callable[[], bool],
) -> EvaluationResult:
    """Evaluate the present weights on the run's evaluation seeds, in a child process (in this one in serial mode).

    Args:
        plan: of the run.
        state: weights, as published.
        version: of these weights.
        bell: this process's own.
        started: told of the child.
        stopped: whether the run was asked to stop; who makes it true rings ``bell``.

    Raises:
        WorkerDied: the evaluator failed or ended early.
        Stopped: the run was asked to stop.
    """
    with ExitStack() as stack:
        block = WeightBlock(state.manifest, "evaluator weights")
        stack.callback(block.free)
        WeightWriter(block, state).publish(version)
        job = EvaluationJob(
            env=plan.cfg.env,
            policy=plan.policy,
            weights=block,
            version=version,
            seed=plan.cfg.seed,
            episodes=plan.cfg.evaluation.episodes,
            max_episode_steps=plan.cfg.evaluation.max_episode_steps,
            threads=plan.threads.collector,
            on_nan=plan.cfg.on_nan,
            log_dir=plan.run_dir,
            trace=plan.trace,
        )
        if plan.cfg.serial:
            torch.set_num_threads(job.threads)
            stack.callback(torch.set_num_threads, plan.threads.learner)
            guest = Tracer("evaluator-0", plan.trace, guest=True)
            stack.callback(guest.close)
            return run_evaluation(job, lambda: _stop_if(stopped()), guest)
        counters = Counters(["rounds"], "evaluator counters")
        stack.callback(counters.free)
        worker = Worker("evaluator-0", evaluator_main, (job, counters), threads=job.threads, bell=bell)
        stack.callback(worker.stop, STOP_S)
        started(worker)
        waiter, pacing = Waiter(bell, stopped, worker.peers()), plan.cfg.pacing

        def wait(condition: Callable[[], bool], what: str, limit_s: float) -> None:
            who = f"evaluator-0 (pid {worker.pid})"
            wait_while_alive(waiter, condition, lambda: counters["rounds"], what, who=who, stall_limit_s=limit_s)

        # Imports and the making of envs are no stall; the first step is seen within a second, nobody rings for it.
        wait(lambda: counters["rounds"] > 0 or worker.received("result"), "its first step", pacing.start_limit_s)
        wait(lambda: worker.received("result"), "the final evaluation", pacing.stall_limit_s)
        result: EvaluationResult = worker.take_message("result")
        return result


def _stop_if(stopped: bool) -> None:
    if stopped:
        raise Stopped("interrupted during the final evaluation")

"""Evaluations of a run: when they are due, what becomes of them, and the best weights so far.

The learner goes on while an evaluation runs, and waits for it where the next is due: evaluation points are exact, none
is left out. With ``stop_at_return`` it waits for each at once, so that the run ends where the return was reached.
``best/`` holds the weights that were evaluated, not those that the learner had when the result came.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from unilab.algos.learner import Learner
from unilab.checkpoint import Checkpoints, list_checkpoints, read_meta, steps_of
from unilab.errors import ConfigError, WaitTimeout
from unilab.evaluators import Evaluator
from unilab.preflight import Plan
from unilab.run_state import learnt
from unilab.telemetry.every import Every
from unilab.telemetry.reporter import Writer
from unilab.telemetry.trace import Tracer
from unilab.workers import EvaluationResult

BEST = "best"


class Evaluations:
    """All evaluations of a run.

    Args:
        plan: of the run.
        learner: whose weights are evaluated.
        evaluator: does it.
        report: takes env steps and scalars of each.
        log: takes a record of each.
        note: takes a message for the console.
        trace: spans ``snapshot`` and ``wait_evaluation``.
    """

    def __init__(
        self,
        plan: Plan,
        learner: Learner,
        evaluator: Evaluator,
        report: Callable[[int, Mapping[str, float]], None],
        log: Writer,
        note: Callable[[str], None],
        trace: Tracer,
    ) -> None:
        cfg = plan.cfg.evaluation
        self._plan = plan
        self._learner = learner
        self._evaluator = evaluator
        self._report = report
        self._log = log
        self._note = note
        self._trace = trace
        self._on = cfg.eval_episodes > 0
        self._due = Every(cfg.eval_every if self._on else 0, start_steps=plan.start_steps)
        self._running: dict[str, Any] | None = None  # state that is evaluated now
        self._taken_s = 0.0  # when it was the learner's
        self._store = Checkpoints(plan.run_dir / BEST, keep=1)
        self.best = self._best_before()
        """Best mean return of an evaluation so far; None before the first."""
        self.last: EvaluationResult | None = None
        """The newest result."""
        self.reached = False
        """Whether ``stop_at_return`` was reached."""

    def start(self) -> None:
        """A new run begins: evaluate what it begins with, if that is wanted."""
        if self._plan.cfg.evaluation.eval_at_start:
            self._begin(0)

    def tick_done(self, tick: int) -> None:
        """Take what has come in, and begin what is due.

        Raises:
            WorkerDied: the evaluator failed, ended or hangs.
            Stopped: the run was asked to stop.
        """
        if self._running and self._evaluator.ready():
            self._take()
        if self._due.due(self._plan.schedule.watermark(tick)):
            self._begin(tick)

    def settle(self, limit_s: float | None = None) -> None:
        """Return once nothing is evaluated; what takes longer than ``limit_s`` seconds is given up.

        Raises:
            WorkerDied: the evaluator failed, ended or hangs.
            Stopped: the run was asked to stop, and there is no limit.
        """
        if self._running:
            try:
                self._take(limit_s)
            except WaitTimeout as error:
                self._note(f"the evaluation at env step {self._running['env_steps']:,} is given up: {error}")
                self._running = None

    def begin_last(self, tick: int) -> None:
        """Evaluate the final weights, unless that is done; the run's last save goes on meanwhile."""
        if self._on:
            self.settle()
            if self.last is None or self.last.version != tick:
                self._begin(tick)

    def finish(self) -> EvaluationResult | None:
        """The result for the final weights; None where there are no evaluations."""
        self.settle()
        return self.last

    @property
    def lost(self) -> str | None:
        """Why the best weights are not on disk, in a sentence; None if they are."""
        self._store.wait()
        return self._store.failures[-1] if self._store.failures else None

    def close(self) -> None:
        """End the evaluator and the thread that writes."""
        self._evaluator.close()
        self._store.close()

    def _begin(self, tick: int) -> None:
        self.settle()
        # What best/ keeps: the learner at this moment, enough to evaluate, show and start from.
        env_steps = self._plan.schedule.watermark(tick)
        with self._trace.span("snapshot", tick=tick):
            self._running = learnt(self._plan, self._learner, tick) | {"env_steps": env_steps}
            self._taken_s = time.time()
            self._evaluator.begin(tick)
        if self._plan.cfg.evaluation.stop_at_return is not None:
            self.settle()

    def _take(self, limit_s: float | None = None) -> None:
        assert self._running is not None
        with self._trace.span("wait_evaluation", tick=int(self._running["tick"])):
            result = self._evaluator.wait(limit_s)
        state, self._running = self._running, None
        self.last = result
        scalars, env_steps = result.scalars(), int(state["env_steps"])
        mean = scalars["eval/mean_reward"]
        self._report(env_steps, scalars)
        finite = {name: value for name, value in scalars.items() if math.isfinite(value)}
        record = {"wall_time_s": state["wall_time_s"], **result.record(), "scalars": finite}
        self._log.write(env_steps, record)
        if result.episodes.cut:
            self._note(
                f"{result.episodes.cut} evaluation episodes did not end within "
                f"{self._plan.cfg.evaluation.eval_max_steps:,} steps and were counted as they stood"
            )
        if self.best is None or mean > self.best:
            self.best = mean
            about = {name: state[name] for name in ("tick", "updates", "wall_time_s")}
            about |= {"env": self._plan.cfg.env.env, "algo": self._plan.cfg.algo, "mean_reward": mean}
            self._store.begin(env_steps, state, about, as_of_s=self._taken_s)
        wanted = self._plan.cfg.evaluation.stop_at_return
        self.reached = wanted is not None and mean >= wanted

    def _best_before(self) -> float | None:
        """Of the run that goes on; one that lies behind where it goes on from is set aside."""
        best = None
        for path in list_checkpoints(self._store.directory):
            if steps_of(path) > self._plan.start_steps:
                path.rename(path.with_name(f"abandoned_{path.name}"))
                continue
            try:
                best = float(read_meta(path)["mean_reward"])
            except ConfigError as error:
                self._note(f"best: {error}")
        return best

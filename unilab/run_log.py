"""Opens what a run writes scalars to: console, TensorBoard, csv, evaluations, a tracker."""

from __future__ import annotations

from collections.abc import Callable

from unilab.config import as_plain
from unilab.preflight import Plan
from unilab.progress import Progress
from unilab.telemetry.console import Console
from unilab.telemetry.csv import CsvWriter
from unilab.telemetry.eval_log import EvalLog, read_evaluations
from unilab.telemetry.every import Every
from unilab.telemetry.lasting import LastingWriter
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter, Writer
from unilab.telemetry.tensorboard import TensorBoardWriter
from unilab.telemetry.track import Tracker


class RunLog:
    """The scalars of a run on their way to wherever they are wanted.

    A run that goes on gets files that end where it stood: what it wrote out of turn when it stopped makes room for what
    is due.

    Args:
        plan: of the run.
        console: of the run.

    Raises:
        OSError: a file cannot be opened.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        written = max(0, int(plan.resume.state["progress"]["written"])) if plan.resume else 0
        board = _lasting(
            "the TensorBoard file", lambda n: TensorBoardWriter(plan.run_dir, start_steps=n), written, console
        )
        table = _lasting(
            "progress.csv", lambda n: CsvWriter(plan.run_dir / "progress.csv", start_steps=n), written, console
        )
        evaluations = plan.run_dir / "eval.jsonl"
        self.eval_log = _lasting("eval.jsonl", lambda n: EvalLog(evaluations, start_steps=n), plan.start_steps, console)
        """Every evaluation, a line each."""
        trackers: list[Tracker] = []
        if plan.cfg.track != "none":
            trackers = [Tracker(plan.cfg.track, plan.run_dir, as_plain(plan.cfg), console.note)]
        self._files: list[LastingWriter | Tracker] = [board, table, self.eval_log, *trackers]
        for record in read_evaluations(evaluations):
            if record["env_steps"] > written:  # hidden with what was written out of turn
                board.write(record["env_steps"], record["scalars"])
        self._reporter = Reporter(
            console,
            [board, table, *trackers],
            evaluations=[board, *trackers],
            histograms=[board],
            total_steps=plan.schedule.watermark(plan.schedule.total_ticks),
        )
        self.metrics = Metrics()
        """The learner's scalars, filled by the loop."""
        self.progress = Progress(
            self._reporter,
            self.metrics,
            plan.spec.metric_names,
            log_every=Every(plan.cfg.log_every, start_steps=plan.start_steps),
            max_policy_lag=plan.cfg.pacing.max_policy_lag,
        )

    def close(self) -> None:
        """Flush and close; idempotent."""
        self._reporter.close()
        self.eval_log.close()

    def lost(self) -> list[str]:
        """Close every file; what of it is not on disk, in a sentence each."""
        for file in self._files:
            file.close()
        return [file.lost for file in self._files if file.lost]


def _lasting(name: str, make: Callable[[int], Writer], start: int, console: Console) -> LastingWriter:
    return LastingWriter(name, make, start_steps=start, note=console.note)

"""One full cycle of the real thing, made small: prefill, a few ticks, a checkpoint, one evaluation episode."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from unilab import session
from unilab.checks.finding import Finding, fail
from unilab.computing import pick_compute
from unilab.config import TrainConfig, threads_of
from unilab.doctor.child import Children
from unilab.doctor.env_probe import EnvReport
from unilab.doctor.timing import read_timing, timing_findings
from unilab.errors import WaitTimeout, WorkerDied
from unilab.preflight import pick_device
from unilab.workers import Link

_UPDATES = 60
_TICKS = (5, 200)
_PREFILL = 200  # rows
_EVAL_STEPS = 2_000
_SLOW_S = 5.0
"""Prefill and evaluation are cut to about this time where the env is slow."""


@dataclass(frozen=True, slots=True)
class DryRunJob:
    """What the process needs; picklable."""

    cfg: TrainConfig
    started_s: float  # time.monotonic() when it was asked for
    console: Path  # where its output goes


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """How it ended."""

    exit_code: int
    spawned_s: float  # until its modules were imported
    wall_s: float  # from then on


def dry_run_findings(
    cfg: TrainConfig, report: EnvReport, children: Children, scratch: Path, deadline_s: float
) -> list[Finding]:
    """Run the small cycle in a child and say how long each part took, and how long the whole run would.

    Nothing of this process changes: no generator, no variable, no ``runs/latest``.

    Args:
        cfg: of the run.
        report: of its env.
        children: starts the process.
        scratch: an empty directory, which the caller removes.
        deadline_s: for the whole cycle.

    Raises:
        Stopped: interrupted.
    """
    small = shortened(cfg, report, scratch)
    job = DryRunJob(small, time.monotonic(), scratch / "console.txt")
    threads = threads_of(cfg).learner
    try:
        result: DryRunResult = children.ask("dry-run", dry_run_main, job, threads=threads, deadline_s=deadline_s)
    except (WaitTimeout, WorkerDied) as error:
        return [_failed(str(error).splitlines()[0], job.console)]
    if result.exit_code:
        return [_failed(f"the run ended with exit code {result.exit_code}", job.console)]
    return timing_findings(cfg, read_timing(small, scratch / "latest", result.spawned_s, result.wall_s))


def shortened(cfg: TrainConfig, report: EnvReport, log_dir: Path) -> TrainConfig:
    """The run's config with small totals; what decides memory, speed and shapes stays."""
    schedule = cfg.schedule()
    slow = max(1, int(_SLOW_S * report.steps_per_s)) if report.steps_per_s else _PREFILL
    prefill = min(schedule.prefill, max(schedule.num_envs, min(_PREFILL, slow)))
    per_tick = float(schedule.utd * schedule.chunk_rows)
    ticks = max(_TICKS[0], min(_TICKS[1], ceil(_UPDATES / per_tick)), ceil(3 / per_tick))
    evaluation = replace(
        cfg.evaluation,
        eval_episodes=min(1, cfg.evaluation.eval_episodes),
        eval_every=0,
        eval_at_start=False,
        stop_at_return=None,
        eval_max_steps=min(cfg.evaluation.eval_max_steps, _EVAL_STEPS, max(10, slow)),
    )
    rounds = ceil(prefill / schedule.num_envs) * schedule.num_envs
    compute = pick_compute(cfg, pick_device(cfg.device), None)  # as the whole run would, however short this one is
    return replace(
        cfg,
        compile="on" if compute.compiled else "off",
        precision=compute.precision,
        total_steps=rounds + ticks * schedule.chunk_rows,
        replay=replace(cfg.replay, learning_starts=prefill),
        evaluation=evaluation,
        log_dir=log_dir,
        name="dry-run",
        trace=True,
    )


def dry_run_main(link: Link, job: DryRunJob) -> None:
    """Entry of the process."""
    spawned_s = time.monotonic() - job.started_s
    with open(job.console, "wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    began = time.perf_counter()
    code = session.run(job.cfg)
    link.send("result", DryRunResult(code, spawned_s, time.perf_counter() - began))


def _failed(saw: str, console: Path) -> Finding:
    text = console.read_text(errors="replace") if console.exists() else ""
    cause = text[text.rindex("error: ") :] if "error: " in text else text[-2_000:]
    return fail("dry run", saw, "the console said:", cause.strip())

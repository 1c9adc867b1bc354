"""Does a tick cost no more than the longer of collecting and learning, and what does the learner add of its own?

The whole machine runs: spawned collector, ring, pipeline, weight block. Only the work is synthetic: an env step and an
update that compute for a fixed time each. One more run of each is traced: the trace must say what the run's own scalars
and a stopwatch in the update say. It needs two free cores. (Work that sleeps would measure something else: what
runs after a sleep of milliseconds on a virtual machine finds cold caches and takes four times as long.)
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import report

from unilab.algos.base import LearnerConfig
from unilab.algos.learner import Learner
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig
from unilab.report.measure import measure as measure_trace
from unilab.rundir import RunSummary
from unilab.telemetry.trace_read import read_trace
from unilab.train import train

TICKS = 1000
TICKS_PER_ROW = 100
NUM_ENVS = 8


def main() -> int:
    """Collector-bound, balanced and learner-bound, three repeats each, in turn."""
    cases = {"collect 5 ms, learn 2.5 ms": (5.0, 2.5), "5, 5": (5.0, 5.0), "2.5, 5": (2.5, 5.0)}
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for _ in range(3):
        for name, (collect_ms, learn_ms) in cases.items():
            figures[name].append(measure(collect_ms, learn_ms))
    traced = {name: measure(collect_ms, learn_ms, trace=True) for name, (collect_ms, learn_ms) in cases.items()}
    results = {
        name: {key: float(np.median([run[key] for run in runs])) for key in runs[0]} for name, runs in figures.items()
    }
    claims = {f"tick / max(collect, learn), {name}": (r["ratio"], 1.08) for name, r in results.items()}
    claims["learner's own time outside updates and waits, share of a 5 ms tick"] = (
        max(r["own_us"] for r in results.values()) / 5000,
        0.04,
    )
    for name, run in traced.items():
        claims[f"tick / max(collect, learn) by the trace and by progress.csv, difference, {name}"] = (run["off"], 0.02)
        claims[f"speed by the trace and by a stopwatch, difference, {name}"] = (run["speed_off"], 0.01)
    results |= {f"traced: {name}": run for name, run in traced.items()}
    return report("overlap", results, claims)


def measure(collect_ms: float, learn_ms: float, *, trace: bool = False) -> dict[str, float]:
    """Ticks of one run, without the first hundred."""
    update = Learner.update
    stamps: list[float] = []

    def fixed(self: Learner, batch: Any) -> dict[str, Any]:
        stamps.append(time.perf_counter())
        spin(learn_ms / 1e3)
        return {}

    Learner.update = fixed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            summary = train(replace(config(Path(folder), collect_ms), trace=trace))
            figures = ticks_of(summary)
            return figures | (compared(Path(str(summary.trace)), figures, stamps) if trace else {})
    finally:
        Learner.update = update  # type: ignore[method-assign]


def compared(trace: Path, figures: dict[str, float], stamps: list[float]) -> dict[str, float]:
    """What the trace says of the same run, and how far off that is."""
    said = measure_trace(read_trace(trace))
    stopwatch = NUM_ENVS * (len(stamps) - 1) / (stamps[-1] - stamps[0])
    return {
        "trace_ratio": said.tick_over_longer,
        "off": abs(said.tick_over_longer / figures["ratio"] - 1),
        "speed_off": abs(said.timing.env_steps_per_s / stopwatch - 1),
        "collect_hidden": said.hidden["collect"],
    }


def spin(seconds: float) -> None:
    """Keep a core busy for a fixed time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def config(folder: Path, collect_ms: float) -> TrainConfig:
    """One update of 256 rows and one step of 8 envs a tick; default nets, so that publishing costs what it does."""
    return TrainConfig(
        total_steps=NUM_ENVS * (TICKS + 20),
        log_dir=folder,
        env=EnvConfig(
            env="unilab/Toy-v0",
            num_envs=8,
            env_kwargs={"obs_dim": 17, "action_dim": 6, "step_ms": collect_ms, "busy": True},
        ),
        learner=LearnerConfig(),
        replay=ReplayConfig(buffer_size=100_000, learning_starts=160),
        evaluation=EvaluationConfig(eval_episodes=0),
        pacing=PacingConfig(utd=0.125),
        log_every=NUM_ENVS * TICKS_PER_ROW,
    )


def ticks_of(summary: RunSummary) -> dict[str, float]:
    """Period of a tick, and what it is made of, from the run's own progress.csv; medians, the first ticks left out."""
    run = Path(str(summary.checkpoint)).parent.parent
    with open(run / "progress.csv") as file:
        rows = [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)][1:-1]
    tick_us = np.array([1e6 * NUM_ENVS / row["time/fps"] for row in rows])

    def part_us(role: str, *names: str) -> np.ndarray:
        return tick_us * [sum(row[f"perf/{role}_{name}_share"] for name in names) for row in rows]

    # All that the collector does for a chunk; what is left of a tick that it bounds is hand-over.
    collect_us = part_us("collector", "fetch", "act", "env_step", "append")
    learn_us = part_us("learner", "update")
    own_us = tick_us - learn_us - part_us("learner", "wait_batch")
    return {
        "tick_us": float(np.median(tick_us)),
        "collect_us": float(np.median(collect_us)),
        "learn_us": float(np.median(learn_us)),
        "own_us": float(np.median(own_us)),
        "ratio": float(np.median(tick_us / np.maximum(collect_us, learn_us))),
    }


if __name__ == "__main__":
    sys.exit(main())

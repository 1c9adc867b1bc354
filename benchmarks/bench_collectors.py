"""What do more collectors bring, in lockstep and free-running, where envs are even, slow or of uneven speed?

    python benchmarks/bench_collectors.py [--repeats 3] [--seconds 2]

The whole machine runs, learner with real updates (SAC, 2x64, batch 64). Only the env is synthetic: four envs a
collector whose common step sleeps, for a fixed or an exponentially distributed time. So two cores do for four
collectors, and what is measured is who waits for whom. One case computes instead: it shows what ``--affinity spread``
does, with as many collectors as there are cores beside the learner's. Figures are of the middle of each run, medians
over repeats that take turns.

A chunk is one step (``steps_per_tick`` 1, the default). That decides what free-running can bring: lockstep waits in
each tick for the slowest of N chunks, and the longer a chunk, the more evenly its sum comes out. With two collectors
and exponential steps the slower of two chunks of k steps takes 1 + C(2k, k) / 4^k times the mean: 1.5, 1.38, 1.27,
1.20 times for k = 1, 2, 4, 8. Free-running gains at most that.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, report

from unilab.algos.base import LearnerConfig
from unilab.budget import usable_cores
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.hooks import Hooks
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig
from unilab.rundir import RunSummary
from unilab.train import train

ENVS_EACH = 4
UTD = 0.125
BATCH = 64
ROW_S = 0.25  # from one row of progress to the next, about
NEEDED = 1.3  # times the env steps/s of lockstep, with two collectors and exponential times

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    kind: str
    step_ms: float
    collectors: int
    pacing: str = "lockstep"
    affinity: str = "none"

    @property
    def name(self) -> str:
        """In tables and files."""
        spread = ", spread" if self.affinity == "spread" else ""
        return f"{self.kind} {self.step_ms:g} ms, {self.collectors} collectors, {self.pacing}{spread}"

    @property
    def expected(self) -> float:
        """Env steps/s if nobody waited."""
        return 1e3 * ENVS_EACH * self.collectors / self.step_ms


def main() -> int:
    """All cases in turn, then the figures, the claims and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    runs: dict[Case, list[Figures]] = {case: [] for case in cases()}
    for repeat in range(args.repeats):
        for case, figures in runs.items():
            figures.append(measure(case, args.seconds, seed=repeat))
    results = {case.name: summary_of(figures) for case, figures in runs.items()}
    ratios, claims = compare(runs)
    failed = report("collectors", results | ratios, claims)
    draw(runs, RESULTS / "collectors.png")
    return failed


def cases() -> list[Case]:
    """Kinds of env by number of collectors, lockstep and free-running next to each other; affinity off and on."""
    plain = [
        Case(kind, step_ms, n, pacing)
        for kind, step_ms, counts in (("even", 4.0, (1, 2)), ("slow", 16.0, (1, 2)), ("jittery", 8.0, (1, 2, 4)))
        for n in counts
        for pacing in ("lockstep", "free")
    ]
    computing = Case("computing", 4.0, max(1, usable_cores() - 1))
    return [*plain, computing, replace(computing, affinity="spread")]


def measure(case: Case, seconds: float, seed: int) -> Figures:
    """One run, for so many seconds after its first row of progress; with one seed steps take the same times."""
    end = [float("inf")]

    def tick_done(env_steps: int, scalars: Any, evaluation: object) -> bool:
        if scalars and end[0] == float("inf"):
            end[0] = time.perf_counter() + seconds
        return time.perf_counter() < end[0]

    with tempfile.TemporaryDirectory() as folder:
        return figures_of(train(config(case, Path(folder), seed), hooks=Hooks(stream=None, tick_done=tick_done)), case)


def config(case: Case, folder: Path, seed: int) -> TrainConfig:
    """A run without end."""
    kwargs = {"step_ms": case.step_ms, "jitter": case.kind == "jittery", "busy": case.kind == "computing"}
    return TrainConfig(
        total_steps=10**9,
        seed=seed,
        compile="off",
        affinity=case.affinity,  # type: ignore[arg-type]
        log_dir=folder,
        log_every=int(ROW_S * case.expected),
        env=EnvConfig(env="unilab/Toy-v0", num_envs=ENVS_EACH * case.collectors, env_kwargs=kwargs),
        learner=LearnerConfig(hidden=(64, 64)),
        replay=ReplayConfig(buffer_size=20_000, learning_starts=40 * ENVS_EACH, batch_size=BATCH),
        evaluation=EvaluationConfig(eval_episodes=0),
        pacing=PacingConfig(utd=UTD, num_collectors=case.collectors, pacing=case.pacing),  # type: ignore[arg-type]
    )


def figures_of(summary: RunSummary, case: Case) -> Figures:
    """Speed, waits and what each part of a tick or chunk costs, from the run's own rows without the first and last."""
    with open(Path(str(summary.checkpoint)).parent.parent / "progress.csv") as file:
        rows = [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)]
    steps = np.diff([row["time/total_timesteps"] for row in rows])[:-1]
    seconds = steps / [row["time/fps"] for row in rows[1:-1]]

    def spent_s(role: str, *parts: str) -> float:
        return sum(float(np.dot([row[f"perf/{role}_{part}_share"] for row in rows[1:-1]], seconds)) for part in parts)

    updates = np.diff([row["train/n_updates"] for row in rows])[:-1]
    ticks = steps.sum() / ENVS_EACH / (case.collectors if case.pacing == "lockstep" else 1)
    chunks = steps.sum() / ENVS_EACH / case.collectors  # of each collector
    wall_s = float(seconds.sum())
    return {
        "env_steps_per_s": float(steps.sum() / wall_s),
        "of_expected": float(steps.sum() / wall_s / case.expected),
        "learner_wait": spent_s("learner", "wait_batch") / wall_s,
        "collector_wait": spent_s("collector", "wait_grant") / wall_s,
        "update_us": 1e6 * spent_s("learner", "update") / max(1.0, updates.sum()),
        "handover_us": 1e6 * spent_s("collector", "wait_grant") / chunks,
        "publish_us": 1e6 * spent_s("learner", "publish") / ticks,
        "own_us": 1e6 * spent_s("learner", "save", "other") / ticks,
        "step_us": 1e6 * spent_s("collector", "env_step") / chunks,
        "fetch_us": 1e6 * spent_s("collector", "fetch") / chunks,
        "pack_us": 1e6 * spent_s("collector", "pack") / chunks,
        "round_us": 1e6 * spent_s("collector", "act", "append", "other") / chunks,
    }


def summary_of(runs: list[Figures]) -> Figures:
    """Medians, and the quartiles of the speed."""
    speeds = [run["env_steps_per_s"] for run in runs]
    medians = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
    return medians | {"q25": float(np.percentile(speeds, 25)), "q75": float(np.percentile(speeds, 75))}


def compare(runs: dict[Case, list[Figures]]) -> tuple[dict[str, Figures], dict[str, tuple[float, float]]]:
    """Ratios of neighbours, repeat by repeat: free-running over lockstep, spread over not; and what is claimed."""
    ratios, claims = {}, {}
    for before, after in zip(runs, list(runs)[1:], strict=False):
        if replace(after, pacing=before.pacing, affinity=before.affinity) != before:
            continue
        what = "spread / not" if after.affinity != before.affinity else "free / lockstep"
        pairs = zip(runs[before], runs[after], strict=True)
        ratio = [b["env_steps_per_s"] / a["env_steps_per_s"] for a, b in pairs]
        low, median, high = np.percentile(ratio, [25, 50, 75])
        name = f"{what}: {before.kind}, {before.collectors} collectors"
        ratios[name] = {"times": float(median), "q25": float(low), "q75": float(high)}
        if what == "free / lockstep" and (before.kind, before.collectors) == ("jittery", 2):
            claims[f"{NEEDED} times lockstep's env steps/s, of those that free-running has; {name}"] = (
                NEEDED / float(median),
                1.0,
            )
    return ratios, claims


def draw(runs: dict[Case, list[Figures]], path: Path) -> None:
    """Env steps/s, as a share of what the envs would give, and the learner's wait, over the number of collectors."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    plain = [case for case in runs if case.kind != "computing"]
    for color, kind in enumerate(dict.fromkeys(case.kind for case in plain)):
        for pacing, style in (("lockstep", "o--"), ("free", "s-")):
            own = [case for case in plain if (case.kind, case.pacing) == (kind, pacing)]
            for axis, what in zip(axes, ("env_steps_per_s", "learner_wait"), strict=True):
                values = [np.percentile([run[what] for run in runs[case]], [25, 50, 75]) for case in own]
                low, median, high = np.array(values).T
                spread = [median - low, high - median]
                counts, label = [case.collectors for case in own], f"{kind} {own[0].step_ms:g} ms, {pacing}"
                axis.errorbar(counts, median, yerr=spread, fmt=style, color=f"C{color}", capsize=3, label=label)
    for axis, title in zip(axes, ("env steps/s", "learner's wait, share of time"), strict=True):
        axis.set(xlabel="collectors, four envs each", title=title, xticks=[1, 2, 4])
        axis.set_ylim(bottom=0)
    axes[0].legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())

"""Speeds and overlap against a stopwatch and sums of their own: what is printed is what happened."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import numpy as np
import pytest

from unilab.algos.base import LearnerConfig
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.hooks import Hooks
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig
from unilab.report.measure import measure
from unilab.telemetry.trace_read import read_trace
from unilab.train import train

pytestmark = pytest.mark.alone

ENVS, TICKS, ROW_TICKS = 4, 500, 100


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A run of two processes, and when its ticks ended: the next one begins right after."""
    stamps: list[float] = []

    def tick_done(*_: object) -> bool:
        stamps.append(time.perf_counter())
        return True

    cfg = TrainConfig(
        total_steps=ENVS * (TICKS + 10),
        log_dir=tmp_path_factory.mktemp("runs"),
        log_every=ENVS * ROW_TICKS,
        threads=1,
        trace=True,
        trace_ticks=f"2:{TICKS}",
        env=EnvConfig(env="unilab/Toy-v0", num_envs=ENVS, env_kwargs={"step_ms": 1.0, "busy": True}),
        learner=LearnerConfig(hidden=(64, 64)),
        replay=ReplayConfig(batch_size=64, buffer_size=5_000, learning_starts=ENVS * 10),
        evaluation=EvaluationConfig(eval_episodes=0),
        pacing=PacingConfig(utd=0.5),
    )
    train(cfg, hooks=Hooks(stream=io.StringIO(), tick_done=tick_done))
    assert len(stamps) == TICKS
    return cfg.log_dir / "latest", stamps


def test_the_report_s_speed_is_that_of_a_stopwatch(timed: tuple[Path, list[float]]) -> None:
    run, stamps = timed
    report = measure(read_trace(run / "trace.json"))

    # From the start of tick 2 to the start of the last.
    per_s = (TICKS - 2) / (stamps[TICKS - 2] - stamps[0])
    assert report.timing.env_steps_per_s == pytest.approx(per_s * ENVS, rel=0.01)
    assert report.timing.updates_per_s == pytest.approx(per_s * ENVS * 0.5, rel=0.01)
    assert report.timing.ticks.mean == pytest.approx(1 / per_s, rel=0.01)


def test_the_speeds_in_the_log_are_those_of_a_stopwatch(timed: tuple[Path, list[float]]) -> None:
    run, stamps = timed
    with open(run / "progress.csv") as file:
        rows = [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)]
    ends = [stamps[int(row["env_steps"] / ENVS - 10) - 1] for row in rows]

    # A row's speed is since the row before. Between two rows only: each is written a moment before its tick ends.
    assert [row["env_steps"] for row in rows[:5]] == [ENVS * ROW_TICKS * number for number in range(1, 6)]
    spent_s = sum(ENVS * ROW_TICKS / row["time/fps"] for row in rows[1:5])
    assert spent_s == pytest.approx(ends[4] - ends[0], rel=0.01)


def test_the_report_s_split_adds_up_and_its_overlap_is_that_of_the_spans(timed: tuple[Path, list[float]]) -> None:
    run, _ = timed
    report = measure(read_trace(run / "trace.json"))
    events = json.loads((run / "trace.json").read_text())
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}

    def spans(process: str, *kinds: str) -> list[tuple[float, float]]:
        found = [e for e in events if e["ph"] == "X" and e["name"] in kinds and names[e["pid"]] == process]
        return [(e["ts"], e["ts"] + e["dur"]) for e in found]

    ticks = spans("learner", "tick")
    begin, end = min(ticks)[0], max(ticks)[0]
    updates = spans("learner", "update")
    busy = [
        (max(a, begin), min(b, end))
        for a, b in spans("collector-0", "fetch", "act", "env_step", "append")
        if a < end and b > begin
    ]
    (a, b), (c, d) = np.array(busy).T[..., None], np.array(updates).T[:, None]
    hidden = np.maximum(0.0, np.minimum(b, d) - np.maximum(a, c)).sum()

    assert report.hidden["collect"] == pytest.approx(hidden / (b - a).sum(), abs=0.01)
    for role, split in report.timing.split.items():
        assert sum(split.values()) == pytest.approx(1, abs=0.01), role
        assert all(-0.001 <= share <= 1.001 for share in split.values()), role

"""``--on-nan skip``: the run goes on, counts stay exact, and nothing that is not finite is stored or saved."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from program import SMALL, Start
from unilab.algos.base import LearnerConfig
from unilab.checkpoint import load_replay
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.errors import NonFinite
from unilab.replay import ReplayConfig, Ring, RowLayout
from unilab.resume import open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train


def config(log_dir: Path, bad_at: int, **changes: Any) -> TrainConfig:
    cfg = TrainConfig(
        total_steps=300,
        threads=2,
        log_dir=log_dir,
        log_every=30,
        serial=True,
        on_nan="skip",
        env=EnvConfig(env="unilab/Toy-v0", num_envs=3, env_kwargs={"bad_at": bad_at, "bad_in": "reward"}),
        learner=LearnerConfig(hidden=(8, 8), norm_obs=True),
        replay=ReplayConfig(batch_size=8, buffer_size=1_000, learning_starts=60),
        evaluation=EvaluationConfig(eval_episodes=0),
    )
    return dataclasses.replace(cfg, **changes)


def stored_rows(checkpoint: Path, layout: RowLayout) -> np.ndarray[Any, Any]:
    """[n, width] of the replay that was saved."""
    ring = Ring(5_000, layout)
    load_replay(checkpoint, [ring])
    rows = np.concatenate(list(ring.read(ring.oldest, ring.cursor)))
    ring.free()
    return rows


def outcome(summary: RunSummary) -> tuple[Any, ...]:
    return (
        summary.learner_digest,
        summary.replay_digest,
        summary.env_steps,
        summary.updates,
        summary.skipped_steps,
        summary.best_return,
    )


@pytest.mark.parametrize("bad_at", [2, 57])
def test_a_bad_step_is_skipped_and_counted_with_the_same_bits_in_both_modes(tmp_path: Path, bad_at: int) -> None:
    serial = train(config(tmp_path, bad_at))
    lockstep = train(config(tmp_path, bad_at, serial=False))
    clean = train(config(tmp_path, 0))

    assert outcome(serial) == outcome(lockstep)
    assert (serial.status, serial.exit_code, serial.skipped_steps, clean.skipped_steps) == ("completed", 0, 1, 0)
    assert (serial.env_steps, serial.updates) == (clean.env_steps, clean.updates)
    assert serial.replay_digest != clean.replay_digest
    with (Path(str(serial.checkpoint)).parents[1] / "progress.csv").open() as file:
        assert list(csv.DictReader(file))[-1]["rollout/skipped_steps"] == "1.0"


@pytest.mark.parametrize("bad_at", range(63, 71))
def test_a_run_that_skips_can_be_continued_exactly(tmp_path: Path, bad_at: int) -> None:
    """The bad step comes before, at and after the point where the run stops and goes on (200 steps are 67 rounds)."""
    whole = train(config(tmp_path, bad_at))
    half = train(config(tmp_path, bad_at, total_steps=200, name="half"))
    resume = open_resume(str(Path(str(half.checkpoint)).parents[1]), tmp_path)
    rest = train(dataclasses.replace(saved_config(resume), total_steps=300), resume)

    assert outcome(rest) == outcome(whole)
    assert whole.skipped_steps == 1


def test_stop_is_the_default_and_the_first_step_cannot_be_skipped(tmp_path: Path) -> None:
    assert TrainConfig().on_nan == "stop"
    with pytest.raises(NonFinite, match=r"reward = nan .* env index 0, step 57"):
        train(config(tmp_path, 57, on_nan="stop"))
    with pytest.raises(NonFinite, match="no transition is there yet"):
        train(config(tmp_path, 1))


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_an_env_that_is_often_broken_trains_to_the_end(start: Start, vec: str) -> None:
    words = ["--env", "fault_envs:Broken-v0", "--vec", vec, "--num-envs", "3", *SMALL, "--learning-starts", "30"]
    program = start(*words, "-n", "600", "--on-nan", "skip", "--eval-episodes", "2", "--norm-obs")

    assert program.end() == 0, program.text
    summary = program.summary
    assert (summary["status"], summary["env_steps"], summary["skipped_steps"]) == ("completed", 600, 3 * 5)
    assert "obs[1] = nan is not finite in env index 0, step 40" in program.text
    assert "further ones are only counted" in program.text
    assert program.text.count("is not finite") <= 12  # of the collector and the evaluator
    assert summary["mean_ep_length"] == 25  # an episode that was skipped is in no mean
    rows = stored_rows(Path(str(summary["checkpoint"])), RowLayout(obs_dim=2, action_dim=1))
    assert len(rows) == 600
    assert np.isfinite(rows).all()

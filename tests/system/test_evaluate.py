"""``scripts/evaluate.py`` in a process of its own, against what the run itself measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from program import REPOSITORY
from unilab.algos.base import LearnerConfig
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.replay import ReplayConfig
from unilab.rundir import RunSummary
from unilab.train import train


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSummary]:
    """A run of 200 env steps whose evaluation plays 3 episodes, and where it is."""
    cfg = TrainConfig(
        total_steps=200,
        save_every=100,
        threads=1,
        seed=5,
        log_dir=tmp_path_factory.mktemp("runs"),
        serial=True,
        env=EnvConfig(env="Pendulum-v1", num_envs=4),
        learner=LearnerConfig(hidden=(16, 16), norm_obs=True),
        replay=ReplayConfig(batch_size=16, buffer_size=400),
        evaluation=EvaluationConfig(eval_episodes=3),
    )
    summary = train(cfg)
    return (cfg.log_dir / "latest").resolve(), summary


def evaluate(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "scripts/evaluate.py"), *map(str, words)]
    environ = os.environ | {"OMP_NUM_THREADS": "4"}  # the program sets its own
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environ)


def numbers(*words: object) -> dict[str, object]:
    done = evaluate(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    return json.loads(done.stdout)


def test_a_fresh_process_gets_the_returns_of_the_run_bit_for_bit(finished: tuple[Path, RunSummary]) -> None:
    run, summary = finished

    got = numbers("--run", run)

    assert (got["mean_reward"], got["std_reward"]) == (summary.final_eval_mean, summary.final_eval_std)
    assert (got["episodes"], got["lengths"], got["env_steps"]) == (3, [200, 200, 200], 200)
    assert sum(got["returns"]) / 3 == pytest.approx(got["mean_reward"])
    assert got["success_rate"] is None


def test_best_and_a_number_of_env_steps_name_other_weights(finished: tuple[Path, RunSummary]) -> None:
    run, _ = finished
    (run / "best").rename(run / "aside")
    none = evaluate("--run", run, "--checkpoint", "best")
    assert none.returncode == 2
    assert none.stderr.count("\n") == 1
    assert "--checkpoint best" in none.stderr
    earlier = min((run / "checkpoints").glob("step_*"))
    steps = int(earlier.name.removeprefix("step_"))
    shutil.copytree(earlier, run / "best" / earlier.name)
    try:
        best, named = numbers("--run", run, "--checkpoint", "best"), numbers("--run", run, "--checkpoint", steps)
    finally:
        shutil.rmtree(run / "best")
        (run / "aside").rename(run / "best")

    assert best.pop("checkpoint") != named.pop("checkpoint")
    assert best == named
    assert best["env_steps"] == steps < 200


def test_noise_and_seed_change_the_returns_and_repeat(finished: tuple[Path, RunSummary]) -> None:
    run, summary = finished

    noisy, again = (numbers("--run", run, "--stochastic")["mean_reward"] for _ in range(2))

    assert noisy == again != summary.final_eval_mean
    assert numbers("--run", run, "--seed", 6)["mean_reward"] != summary.final_eval_mean

"""One seed, one result: however the processes are scheduled, loaded or delayed, and in serial mode."""

from __future__ import annotations

import dataclasses
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unilab.algos.base import LearnerConfig
from unilab.algos.learner import Learner
from unilab.algos.registry import ALGORITHMS
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig
from unilab.rundir import RunSummary
from unilab.train import train

STEPS = 1_200


def config(log_dir: Path, **changes: Any) -> TrainConfig:
    """A small run; the ring wraps, episodes end inside chunks."""
    cfg = TrainConfig(
        total_steps=changes.pop("total_steps", STEPS),
        threads=2,
        log_dir=log_dir,
        seed=changes.pop("seed", 3),
        serial=changes.pop("serial", False),
        algo=changes.pop("algo", "sac"),
        env=EnvConfig(
            env=changes.pop("env", "unilab/Toy-v0"),
            num_envs=changes.pop("num_envs", 3),
            env_kwargs=changes.pop("env_kwargs", {}),
        ),
        learner=LearnerConfig(hidden=(16, 16), norm_obs=True, norm_reward=True),
        replay=ReplayConfig(batch_size=8, buffer_size=500, learning_starts=90),
        pacing=PacingConfig(utd=changes.pop("utd", 1.0), steps_per_tick=changes.pop("steps_per_tick", 1)),
        evaluation=EvaluationConfig(eval_episodes=0),
    )
    return dataclasses.replace(cfg, **changes)


def digests(summary: RunSummary) -> tuple[str | None, str | None, int, int]:
    return summary.learner_digest, summary.replay_digest, summary.env_steps, summary.updates


@pytest.mark.parametrize("utd", [1.0, 0.37, 2.0])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
def test_lockstep_and_serial_give_the_same_bits(tmp_path: Path, utd: float, num_envs: int) -> None:
    lockstep = train(config(tmp_path, utd=utd, num_envs=num_envs))
    serial = train(config(tmp_path, utd=utd, num_envs=num_envs, serial=True))

    assert digests(lockstep) == digests(serial)
    assert lockstep.learner_digest is not None


def test_other_seeds_give_other_bits(tmp_path: Path) -> None:
    one = train(config(tmp_path, serial=True, seed=3))
    other = train(config(tmp_path, serial=True, seed=4))

    assert one.learner_digest != other.learner_digest
    assert one.replay_digest != other.replay_digest


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_loaded_machine_and_random_delays_change_nothing(
    tmp_path: Path, algo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    quiet = train(config(tmp_path, algo=algo, env="sample_envs:Plain-v0", total_steps=1_000))

    update = Learner.update
    delays = random.SystemRandom()

    def slow_update(self: Learner, batch: Any) -> Any:
        if delays.random() < 0.1:
            time.sleep(delays.uniform(0, 0.004))
        return update(self, batch)

    monkeypatch.setattr(Learner, "update", slow_update)
    with busy_processes(2):
        jittery = train(config(tmp_path, algo=algo, env="sample_envs:Jitters-v0", total_steps=1_000))

    assert digests(jittery) == digests(quiet)


def test_a_large_batch_packed_by_a_thread_gives_the_bits_of_serial_mode(tmp_path: Path) -> None:
    big = {
        "replay": ReplayConfig(batch_size=2_000, buffer_size=500, learning_starts=90),
        "total_steps": 600,
        "steps_per_tick": 8,
        "env_kwargs": {"obs_dim": 20},
    }
    lockstep = train(config(tmp_path, **big))
    serial = train(config(tmp_path, serial=True, **big))

    assert digests(lockstep) == digests(serial)


@pytest.mark.slow
@pytest.mark.parametrize("utd", [1.0, 0.37, 2.0])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
def test_twenty_thousand_steps_give_the_same_bits_three_times(tmp_path: Path, utd: float, num_envs: int) -> None:
    runs = [
        train(config(tmp_path, utd=utd, num_envs=num_envs, total_steps=20_000, serial=serial))
        for serial in (False, False, True)
    ]

    assert len({digests(run) for run in runs}) == 1


@pytest.mark.parametrize("num_envs", [1, 3, 8])
@pytest.mark.parametrize("utd", [1.0, 0.37, 2.0])
def test_updates_are_utd_times_env_steps_after_the_prefill(tmp_path: Path, num_envs: int, utd: float) -> None:
    summary = train(config(tmp_path, utd=utd, num_envs=num_envs, total_steps=400, serial=True))
    prefill = -(-90 // num_envs) * num_envs
    env_steps = prefill + -(-(400 - prefill) // num_envs) * num_envs

    assert summary.env_steps == env_steps
    assert summary.updates == int(round(utd * 100) * (env_steps - prefill) // 100)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep the cores busy from outside."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _burn() -> None:
    while True:
        sum(range(100_000))

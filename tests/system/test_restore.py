"""A checkpoint acts as the run's own evaluation did."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS
from unilab.algos.td3 import TD3Config
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import evaluate
from unilab.replay import ReplayConfig
from unilab.restore import load_policy
from unilab.train import train


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_restored_policy_has_the_returns_of_the_final_evaluation(tmp_path: Path, algo: str) -> None:
    cfg = TrainConfig(
        algo=algo,
        total_steps=400,
        threads=2,
        seed=5,
        log_dir=tmp_path,
        serial=True,
        env=EnvConfig(env="Pendulum-v1", num_envs=4),
        learner=LearnerConfig(hidden=(16, 16), norm_obs=True),
        replay=ReplayConfig(batch_size=16, buffer_size=400),
        evaluation=EvaluationConfig(eval_episodes=3),
    )
    summary = train(cfg)
    policy, restored = load_policy(Path(str(summary.checkpoint)))
    env = make_env(dataclasses.replace(restored.env, num_envs=3), seed=restored.seed, role="eval")

    assert restored == cfg
    assert evaluate(env, policy.act, 3).returns.mean() == summary.final_eval_mean


def test_a_restored_policy_explores_as_its_run_did_at_that_tick(tmp_path: Path) -> None:
    cfg = TrainConfig(
        algo="td3",
        total_steps=400,
        log_dir=tmp_path,
        serial=True,
        save_every=200,
        env=EnvConfig(env="unilab/Toy-v0", num_envs=4),
        learner=LearnerConfig(hidden=(8,)),
        replay=ReplayConfig(batch_size=8, buffer_size=400),
        td3=TD3Config(noise_schedule="linear"),
        evaluation=EvaluationConfig(eval_episodes=0),
    )
    last = Path(str(train(cfg).checkpoint))
    first = min(last.parent.glob("step_*"))
    obs, ended = {"obs": np.zeros((4, 3), np.float32)}, np.zeros(4, np.bool_)

    for checkpoint, falls in ((last, False), (first, True)):
        policy, _ = load_policy(checkpoint)
        assert bool((policy.explore(obs, ended) != policy.act(obs)).any()) == falls

"""A checkpoint acts as the run's own evaluation did."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS
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

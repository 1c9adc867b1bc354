"""Symmetry, n-step returns and critics that see more than the actor, together, from the env to the exported policy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from test_lockstep import digests
from test_resume import go_on, run_of, scalars
from test_skipping import stored_rows
from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS
from unilab.cli import export_main
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.errors import ConfigError
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig, RowLayout
from unilab.restore import load_policy
from unilab.rundir import RunSummary
from unilab.train import train

LAYOUT = RowLayout(obs_dim=129, action_dim=12, critic_dim=153, n_step=3)


def config(log_dir: Path, **changes: Any) -> TrainConfig:
    cfg = TrainConfig(
        total_steps=600,
        threads=2,
        serial=True,
        log_dir=log_dir,
        log_every=140,
        seed=4,
        env=EnvConfig(
            env="unilab/QuadrupedVelocity-v0",
            num_envs=4,
            env_kwargs={"max_episode_steps": 25, "pushes": {"speed": 0.5, "every_s": [0.1, 0.3]}},
        ),
        learner=LearnerConfig(hidden=(16, 16), norm_obs=True, n_step=3, symmetry=True),
        replay=ReplayConfig(batch_size=32, buffer_size=500, learning_starts=100),
        pacing=PacingConfig(utd=0.25),
        evaluation=EvaluationConfig(eval_episodes=2, eval_every=300, eval_max_steps=25),
    )
    return dataclasses.replace(cfg, **changes)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_run_with_all_of_it_goes_on_bit_by_bit(tmp_path: Path, algo: str) -> None:
    whole = train(config(tmp_path / "whole", algo=algo))
    half = train(config(tmp_path / "half", algo=algo, total_steps=360))
    both = go_on(run_of(half), total_steps=600)

    assert digests(both) == digests(whole)
    assert scalars(run_of(both)) == scalars(run_of(whole))
    assert whole.final_eval_mean is not None


def test_two_processes_give_the_bits_of_serial_mode(tmp_path: Path) -> None:
    assert digests(train(config(tmp_path, serial=False))) == digests(train(config(tmp_path)))


def test_the_rows_hold_both_groups_of_both_ends_of_a_window(tmp_path: Path) -> None:
    rows = stored_rows(Path(str(train(config(tmp_path)).checkpoint)), LAYOUT)
    c = {name: rows[:, columns] for name, columns in LAYOUT.columns.items()}

    assert set(c["steps"][:, 0]) == {1, 2, 3}
    for obs, critic in (("obs", "critic_obs"), ("next_obs", "next_critic_obs")):
        # Same actions, commands and pasts in both; what the actor measures has noise.
        assert np.array_equal(c[obs][:, 30:45], c[critic][:, 30:45])
        assert 0 < np.abs(c[obs][:, :30] - c[critic][:, :30]).max() <= 0.5 + 1e-3
    # Three steps later the frame of the start is not in the history of two any more; one or two later it is.
    for steps, place in ((1, slice(45, 87)), (2, slice(87, 129))):
        which = c["steps"][:, 0] == steps
        assert np.array_equal(c["next_obs"][which][:, place], c["obs"][which][:, :42])


def test_symmetry_changes_what_is_learnt_and_nothing_that_is_collected_before(tmp_path: Path) -> None:
    def learnt(**changes: Any) -> RunSummary:
        cfg = config(tmp_path, total_steps=116)  # 4 updates, the first chunks act with version 0
        return train(dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, **changes)))

    mirrored, plain = learnt(), learnt(symmetry=False)
    assert mirrored.learner_digest != plain.learner_digest
    assert (mirrored.env_steps, mirrored.updates) == (plain.env_steps, plain.updates)


def test_an_env_without_a_mirror_map_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="symmetry=True cannot work with unilab/Toy-v0: it declares no mirror map"):
        train(config(tmp_path, env=EnvConfig(env="unilab/Toy-v0")))
    assert not list(tmp_path.iterdir())


def test_the_exported_policy_needs_only_what_the_actor_sees(tmp_path: Path) -> None:
    checkpoint = str(train(config(tmp_path)).checkpoint)
    policy, _ = load_policy(Path(checkpoint))
    obs = np.random.default_rng(0).normal(size=(3, 129)).astype(np.float32)
    assert export_main(["--checkpoint", checkpoint, "--out", str(tmp_path / "bundle")]) == 0
    exported = onnxruntime.InferenceSession(tmp_path / "bundle/policy.onnx")

    assert np.abs(exported.run(["action"], {"obs": obs})[0] - policy.act({"obs": obs})).max() <= 1e-5

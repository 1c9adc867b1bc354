"""What acts before the first update: uniform random actions, or the policy that the run begins with."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import test_lockstep
from test_lockstep import digests
from test_resume import run_of
from test_skipping import stored_rows
from unilab.algos.td3 import TD3Config
from unilab.checkpoint import load_replay
from unilab.config import TrainConfig
from unilab.replay import Ring, RowLayout
from unilab.replay.ring import RANDOM_POLICY
from unilab.restore import load_policy
from unilab.rundir import RunSummary
from unilab.train import train

LAYOUT = RowLayout(obs_dim=3, action_dim=1)
PREFILL = 90


def config(log_dir: Path, warmup: Any, **changes: Any) -> TrainConfig:
    cfg = test_lockstep.config(log_dir, **{"serial": True, "algo": "td3", "total_steps": 180, **changes})
    return dataclasses.replace(
        cfg, replay=dataclasses.replace(cfg.replay, warmup=warmup), td3=TD3Config(exploration_noise=0.0)
    )


def versions(summary: RunSummary) -> list[int]:
    ring = Ring(5_000, LAYOUT)
    load_replay(Path(str(summary.checkpoint)), [ring])
    found: list[int] = ring.versions(ring.oldest, ring.cursor).tolist()
    ring.free()
    return found


def actions(summary: RunSummary) -> Any:
    return stored_rows(Path(str(summary.checkpoint)), LAYOUT)[:PREFILL, LAYOUT.columns["action"]][:, 0]


def test_by_default_actions_are_uniform_over_the_whole_range(tmp_path: Path) -> None:
    summary = train(config(tmp_path, "uniform"))
    counts, _ = np.histogram(actions(summary), bins=4, range=(-1, 1))

    assert TrainConfig().replay.warmup == "uniform"
    assert versions(summary)[:PREFILL] == [RANDOM_POLICY] * PREFILL
    assert counts.min() >= 10  # of 90 in 4 parts


def test_the_policy_that_a_run_begins_with_may_act_from_the_first_step_on(tmp_path: Path) -> None:
    teacher = run_of(train(config(tmp_path, "uniform", seed=8)))
    summary = train(config(tmp_path, "policy", init_from=teacher))
    policy, _ = load_policy(next((teacher / "checkpoints").glob("step_*")))
    rows = stored_rows(Path(str(summary.checkpoint)), LAYOUT)[:PREFILL]
    expected = policy.act({"obs": rows[:, LAYOUT.columns["obs"]].copy()})[:, 0]

    assert versions(summary)[:PREFILL] == [0] * PREFILL
    np.testing.assert_allclose(actions(summary), expected, atol=1e-5)
    assert (summary.env_steps, summary.updates) == (180, 90)


@pytest.mark.parametrize("n_step", [1, 3])
def test_two_processes_give_the_bits_of_serial_mode(tmp_path: Path, n_step: int) -> None:
    runs = []
    for serial in (True, False):
        cfg = config(tmp_path, "policy", serial=serial, algo="sac")
        cfg = dataclasses.replace(
            cfg, td3=TD3Config(), learner=dataclasses.replace(cfg.learner, n_step=n_step, norm_obs=True)
        )
        runs.append(train(cfg))

    assert digests(runs[0]) == digests(runs[1])

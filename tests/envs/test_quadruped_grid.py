"""The judge of QuadrupedVelocity, ``benchmarks/quadruped_grid.py``, judges as it says."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from quadruped_env import ENV_ID, QUIET

from unilab.envs.registry import EnvConfig
from unilab.envs.tasks.quadruped.task import QuadrupedVelocity

FILE = Path(__file__).resolve().parents[2] / "benchmarks/quadruped_grid.py"
PLANAR = slice(0, 2)


@pytest.fixture(scope="module")
def judge():
    spec = importlib.util.spec_from_file_location("quadruped_grid", FILE)
    module = sys.modules["quadruped_grid"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["quadruped_grid"]


CFG = EnvConfig(env=ENV_ID, env_kwargs={"noise": QUIET})


def test_the_grid_has_100_commands_over_the_whole_range(judge):
    grid = judge.command_grid(CFG)

    assert len(np.unique(grid, axis=0)) == 100
    assert np.abs(grid).max(axis=0).tolist() == [1, 0.5, 1]
    assert grid.mean(axis=0) == pytest.approx([0, 0, 0])


def test_a_robot_that_stands_is_wrong_by_the_length_of_the_commands(judge):
    grid = judge.command_grid(CFG)
    rollout = judge.play(CFG, judge.stand, np.tile(grid, (100, 1, 1)), seed=0)

    assert rollout.falls == 0
    # Mean squares: (0 + 2 x 0.25 + 2 x 1) / 5 along x, a quarter of that along y, (2 + 2 / 9) / 4 of the yaw rate.
    assert rollout.rmse(PLANAR, first=50) == pytest.approx(0.625**0.5, rel=0.01)
    assert rollout.rmse(slice(2, 3), first=50) == pytest.approx((5 / 9) ** 0.5, rel=0.02)


def test_commands_stay_and_are_what_the_policy_sees_from_the_first_step(judge):
    commands = np.zeros((300, 2, 3))
    commands[:] = [[0.7, 0.1, -0.3], [0, -0.5, 1]]
    commands[200:, 0] = [-1, 0, 0]
    seen = []

    def act(obs):
        seen.append(obs["obs"][:, 42:45].copy())
        return judge.stand(obs)

    judge.play(CFG, act, commands, seed=0)
    np.testing.assert_array_equal(seen, commands.astype(np.float32))


def test_a_fall_counts_and_what_comes_after_it_does_not(judge):
    def crouch(obs):
        action = judge.stand(obs)
        action[0] = [0, 1, -1] * 4  # the first robot alone
        return action

    cfg = EnvConfig(env=ENV_ID, env_kwargs={"fall_height": 0.9})
    rollout = judge.play(cfg, crouch, np.zeros((60, 4, 3)), seed=0)
    fallen = np.isnan(rollout.velocity[:, :, 0])
    assert rollout.falls == 0.25
    assert not fallen[:, 1:].any()
    first = int(np.argmax(fallen[:, 0]))
    assert 0 < first < 40
    assert fallen[first:, 0].all(), "once fallen, fallen"

    by_hand = judge.Rollout(
        command=np.zeros((2, 2, 3)),
        velocity=np.array([[[0.3, 0.4, 0]] * 2, [[0.6, 0.8, 0], [np.nan] * 3]]),
        contact=np.array([[[1, 1, 0, 0]] * 2, [[1, 0, 0, 1], [np.nan] * 4]]),
        target_change=np.zeros((2, 2)),
    )
    assert by_hand.falls == 0.5
    assert by_hand.rmse(PLANAR) == pytest.approx(((0.25 + 0.25 + 1) / 3) ** 0.5)
    assert by_hand.rmse(PLANAR, first=1) == pytest.approx(1)
    assert by_hand.drift() == pytest.approx((0.75 + 0.5) / 2)
    assert by_hand.duty() == pytest.approx([1, 2 / 3, 0, 1 / 3])


def test_contacts_and_changes_of_targets_are_those_of_the_robots(judge):
    actions = np.zeros((4, 2, 12), np.float32)
    actions[1:, 0], actions[2, 1, :6] = 0.5, -0.1

    left = iter(actions)
    rollout = judge.play(CFG, lambda obs: next(left), np.zeros((4, 2, 3)), seed=0)
    reach = QuadrupedVelocity().scene.reach
    half, tenth = reach.mean() / 2, reach[:6].sum() / 12 / 10
    assert rollout.target_change == pytest.approx(np.array([[0, 0], [half, 0], [0, tenth], [0, tenth]]), abs=1e-6)
    standing = judge.play(CFG, judge.stand, np.zeros((50, 3, 3)), seed=0)
    assert standing.contact[20:].all(), "a robot that stands has its feet on the ground"
    assert standing.drift() < 0.05


@pytest.mark.parametrize(
    "missed", ["planar_rmse", "yaw_rmse", "falls", "drift", "target_change", "duty", "survive_pushes"]
)
def test_a_single_goal_that_is_missed_is_said(judge, capsys, missed):
    good = {
        "planar_rmse": 0.1,
        "yaw_rmse": 0.1,
        "falls": 0.0,
        "drift": 0.0,
        "target_change": 0.05,
        "duty": [0.5] * 4,
        "survive_pushes": 1.0,
    }
    bad = {
        "planar_rmse": 0.2,
        "yaw_rmse": 0.3,
        "falls": 0.03,
        "drift": 0.05,
        "target_change": 0.11,
        "duty": [0.5, 0.8, 0.5, 0.5],
    }

    assert judge.print_goals(good)
    assert not judge.print_goals(good | {missed: (bad | {"survive_pushes": 0.94})[missed]})
    assert capsys.readouterr().out.count("missed  ") == 1

"""A quadruped's bundle walks in plain MuJoCo: it sees and does there what the task's env lets it see and do."""

import importlib.util
import json
import subprocess
import sys

import mujoco
import numpy as np
import pytest
from test_export_bundle import ALONE, trained

from unilab.cli import export_main
from unilab.envs.registry import EnvConfig, make_env

KWARGS = {
    "stagger": False,
    "history": 3,
    "noise": {"gyro": 0, "gravity": 0, "joint_angle": 0, "joint_velocity": 0},
    "variation": {"delay_s": [0, 0]},
    "commands": {"every_s": [100, 100]},
}
STEPS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("quadruped")
    env = EnvConfig(env="unilab/QuadrupedVelocity-v0", env_kwargs=KWARGS, num_envs=2)
    checkpoint = trained(place / "runs", env, norm_obs=True)
    assert export_main(["--checkpoint", checkpoint, "--out", str(place / "bundle")]) == 0
    return place / "bundle"


def loaded(folder):
    spec = importlib.util.spec_from_file_location("exported_quadruped", folder / "run_policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    about = json.loads((folder / "metadata.json").read_text())
    return module.Robot(mujoco.MjModel.from_binary_path(str(folder / "model.mjb")), about)


def test_the_robot_sees_and_does_what_it_sees_and_does_in_the_env(folder):
    env = make_env(EnvConfig(env="unilab/QuadrupedVelocity-v0", env_kwargs=KWARGS), seed=3, role="eval")
    robot, rng = loaded(folder), np.random.default_rng(0)
    seen = env.reset()["obs"][0]
    env.sim.copy_to(robot.data, 0)
    mujoco.mj_forward(robot.model, robot.data)
    command = seen[42:45]
    for step in range(STEPS):
        assert np.allclose(robot.observe(command), seen, atol=1e-5), step
        action = rng.uniform(-0.5, 0.5, (1, 12)).astype(np.float32)
        seen = env.step(action).next_obs["obs"][0]
        robot.act(action[0])
        assert np.allclose(robot.data.qpos, env.sim.qpos[0], atol=1e-6), step


def test_it_starts_in_the_nominal_pose_on_its_feet(folder):
    robot = loaded(folder)
    height = robot.data.qpos[2]
    for _ in range(50):
        robot.act(np.zeros(12))

    assert robot.data.qpos[2] == pytest.approx(height, abs=0.03)
    assert robot.data.qpos[3] > 0.99, "upright"


def test_the_script_runs_without_unilab_or_torch_and_says_how_it_went(folder):
    words = [sys.executable, "-c", ALONE, str(folder / "run_policy.py"), "0.2", "-0.5", "0.25", "1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)

    assert said["command"] == [-0.5, 0.25, 1]
    assert len(said["mean_of_second_half"]) == 3
    assert len(said["qpos"]) == 19

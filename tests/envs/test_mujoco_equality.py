"""Native tasks equal Gymnasium's v5 envs; the oracle is Gymnasium's own code."""

import dataclasses
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from native64 import Native64

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import task_class

_RUNNER = {"frame_skip": 3, "ctrl_cost_weight": 0.3, "reset_noise_scale": 0.02}
_VIEW = {"exclude_current_positions_from_observation": False}
_HEALTH = {"healthy_reward": 0.6, "terminate_when_unhealthy": False}
_HUMAN = {f"include_{name}_in_observation": False for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")}
_FORWARD = {"forward_reward_weight": 0.7}
OPTIONS = {
    "HalfCheetah-v5": _RUNNER | _VIEW | _FORWARD,
    "Hopper-v5": _RUNNER
    | _VIEW
    | _HEALTH
    | _FORWARD
    | {"healthy_state_range": (-3.0, 3.0), "healthy_z_range": (0.8, 1.5), "healthy_angle_range": (-0.1, 0.3)},
    "Walker2d-v5": _RUNNER
    | _VIEW
    | _HEALTH
    | _FORWARD
    | {"healthy_z_range": (0.9, 1.5), "healthy_angle_range": (-0.5, 0.6)},
    "Ant-v5": _RUNNER
    | _VIEW
    | _HEALTH
    | _FORWARD
    | {
        "contact_cost_weight": 1e-2,
        "main_body": "front_left_leg",
        "healthy_z_range": (0.3, 0.9),
        "contact_force_range": (-2.0, 3.0),
        "include_cfrc_ext_in_observation": False,
    },
    "Humanoid-v5": _RUNNER
    | _VIEW
    | _HEALTH
    | _FORWARD
    | _HUMAN
    | {"contact_cost_weight": 1e-4, "contact_cost_range": (1.0, 5.0), "healthy_z_range": (1.1, 1.9)},
    "InvertedPendulum-v5": {"frame_skip": 3, "reset_noise_scale": 0.05},
    "InvertedDoublePendulum-v5": {"frame_skip": 3, "reset_noise_scale": 0.05, "healthy_reward": 8.0},
    "HumanoidStandup-v5": _RUNNER
    | _VIEW
    | _HUMAN
    | {"uph_cost_weight": 2.0, "impact_cost_weight": 1e-3, "impact_cost_range": (0.1, 3.0)},
    "Swimmer-v5": _RUNNER | _VIEW | _FORWARD,
    "Reacher-v5": {"frame_skip": 3, "reward_dist_weight": 0.7, "reward_control_weight": 0.4},
    "Pusher-v5": {
        "frame_skip": 3,
        "reward_near_weight": 0.7,
        "reward_dist_weight": 0.4,
        "reward_control_weight": 0.2,
    },
}
"""Every constructor option of a task, none at its default."""

_ASSETS = Path(gym.__file__).parent / "envs/mujoco/assets"
FILES = [("Walker2d-v5", {"xml_file": "walker2d.xml"}), ("Ant-v5", {"xml_file": str(_ASSETS / "ant.xml")})]
CASES = FILES + [(env_id, kwargs) for env_id in OPTIONS for kwargs in ({}, OPTIONS[env_id])]
STEPS = 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("env_id", "kwargs"), CASES)
def test_a_native_task_gives_what_gymnasiums_env_gives_from_the_same_state(env_id, kwargs):
    theirs = gym.make(env_id, disable_env_checker=True, **kwargs).unwrapped
    ours = Native64(task_class(env_id)(**kwargs), seed=5)
    obs, _ = theirs.reset(seed=5)
    np.testing.assert_array_equal(ours.first(), obs)

    theirs.action_space.seed(1)
    ends = 0
    for k in range(STEPS if not kwargs else STEPS // 3):
        action = theirs.action_space.sample()
        obs, reward, terminated, _, info = theirs.step(action)
        own_obs, own_reward, own_terminated, own_info = ours.step(action)
        np.testing.assert_allclose(own_obs, obs, rtol=0, atol=1e-8)
        assert own_reward == pytest.approx(reward, rel=0, abs=1e-8)
        assert own_terminated == terminated
        scalars = {name: value for name, value in info.items() if np.ndim(value) == 0}
        assert own_info == pytest.approx(scalars, rel=0, abs=1e-8)
        if terminated or k % 100 == 99:
            ends += 1
            np.testing.assert_allclose(ours.reset(), theirs.reset()[0], rtol=0, atol=1e-8)
    assert ends >= 3


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("env_id", OPTIONS)
def test_both_backends_give_the_same_rows_for_the_same_seed(env_id):
    n, rows = 3, {}
    limit = {"max_episode_steps": 25}
    for backend, kwargs in (("gymnasium", limit), ("mujoco", limit | {"stagger": False})):
        env = make_env(EnvConfig(env=env_id, backend=backend, num_envs=n, env_kwargs=kwargs), seed=3)
        rng, table = np.random.default_rng(0), [env.reset()["obs"]]
        for _ in range(70):
            step = env.step(rng.uniform(-1, 1, (n, env.spec.action_dim)).astype(np.float32))
            metrics = [step.metrics[name] for name in env.spec.metric_names if name != "unstable"]
            ends = [step.terminated, step.truncated]
            table.append(np.column_stack([step.obs["obs"], step.next_obs["obs"], step.reward, *ends, *metrics]))
        rows[backend] = table
        env.close()

    for theirs, ours in zip(*rows.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)  # of float32 rows


def test_the_sample_options_are_all_that_the_tasks_have():
    for env_id, kwargs in OPTIONS.items():
        known = {field.name for field in dataclasses.fields(task_class(env_id))} - {"xml_file"}
        assert set(kwargs) == known, env_id
        for field in dataclasses.fields(task_class(env_id)):
            assert field.name == "xml_file" or kwargs[field.name] != field.default

"""Native tasks equal Gymnasium's v5 envs; the oracle is Gymnasium's own code."""

import gymnasium as gym
import numpy as np
import pytest
from native64 import Native64

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import task_class

OPTIONS = {
    "HalfCheetah-v5": {
        "frame_skip": 3,
        "forward_reward_weight": 0.7,
        "ctrl_cost_weight": 0.3,
        "reset_noise_scale": 0.2,
        "exclude_current_positions_from_observation": False,
    },
}
"""Every constructor option of a task, none at its default."""

CASES = [(env_id, kwargs) for env_id in OPTIONS for kwargs in ({}, OPTIONS[env_id])]
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
    for k in range(STEPS):
        action = theirs.action_space.sample()
        obs, reward, terminated, _, info = theirs.step(action)
        own_obs, own_reward, own_terminated, own_info = ours.step(action)
        np.testing.assert_allclose(own_obs, obs, rtol=0, atol=1e-8)
        assert own_reward == pytest.approx(reward, rel=0, abs=1e-8)
        assert own_terminated == terminated
        scalars = {name: value for name, value in info.items() if np.ndim(value) == 0}
        assert own_info == pytest.approx(scalars, rel=0, abs=1e-8)
        if terminated or k % 300 == 299:
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
        known = set(task_class(env_id).__dataclass_fields__) - {"xml_file"}
        assert set(kwargs) == known, env_id

"""A recipe says how to rebuild a native task's observation from MjData without unilab."""

import dataclasses

import pytest

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import TASKS
from unilab.export.robot import rebuilds

# Classes are those that other tests register.
GYMNASIUMS = [name for name, task in TASKS.items() if isinstance(task, str) and "/" not in name]


@pytest.mark.parametrize("env_id", GYMNASIUMS)
def test_plain_mujoco_rebuilds_every_observation_of_the_task(env_id):
    env = make_env(EnvConfig(env=env_id), seed=1, role="eval")

    assert rebuilds(env, env.task.recipe(env.sim.model))


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("Ant-v5", {"include_cfrc_ext_in_observation": False}),
        ("Humanoid-v5", {"include_cvel_in_observation": False, "exclude_current_positions_from_observation": False}),
        ("HalfCheetah-v5", {"exclude_current_positions_from_observation": False, "frame_skip": 3}),
    ],
)
def test_a_recipe_follows_the_options_of_the_task(env_id, kwargs):
    env = make_env(EnvConfig(env=env_id, env_kwargs=kwargs), seed=1, role="eval")

    assert rebuilds(env, env.task.recipe(env.sim.model))


@pytest.mark.parametrize(
    "change", [{"start": 0, "stop": 8}, {"function": "sin"}, {"clip": (-0.01, 0.01)}, {"minus": 0}]
)
def test_a_wrong_recipe_is_noticed(change):
    env = make_env(EnvConfig(env="HalfCheetah-v5"), seed=1, role="eval")
    first, *others = env.task.recipe(env.sim.model)

    assert not rebuilds(env, [dataclasses.replace(first, **change), *others])

import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from env_samples import Given
from gymnasium.spaces import Box, Discrete

from unilab.envs.gymnasium_sync import SyncEnv
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import ConfigError, EnvError
from unilab.seeding import env_seed, eval_seed


def refusal(env, **kwargs):
    with pytest.raises(EnvError) as error:
        probe(EnvConfig(env=env, **kwargs))
    assert "\n" not in str(error.value), "one sentence"
    return str(error.value)


def test_the_probe_knows_what_the_learner_must_know():
    spec = probe(EnvConfig())

    assert (spec.env_id, spec.obs_dim, spec.action_dim, spec.max_episode_steps) == (
        "HalfCheetah-v5",
        17,
        6,
        1000,
    )
    assert spec.action_high == (1.0,) * 6
    assert spec.metric_names == ("reward_ctrl", "reward_forward", "unstable", "x_position", "x_velocity")


def test_the_probe_names_dict_keys_in_network_order():
    spec = probe(EnvConfig(env="env_samples:Keyed-v0", critic_keys=("secret",)))

    assert (spec.obs_dim, spec.critic_dim) == (5, 6)
    assert (spec.obs_keys, spec.critic_keys) == (("arm", "vel"), ("secret",))


def test_the_probe_hands_out_no_seed_and_closes_its_env():
    env = Given()

    gym.register("ProbeSample-v0", entry_point=lambda: env)
    probe(EnvConfig(env="ProbeSample-v0"))

    assert env.seeds == [None]
    assert env.closed == 1
    assert [action.tolist() for action in env.actions] == [[0.0]]


def test_the_probe_repeats_itself():
    drawn = []

    class Drawing(Given):
        def reset(self, *, seed=None, options=None):
            gym.Env.reset(self, seed=seed)
            drawn.append(self.np_random.random())
            return super().reset()

    gym.register("Drawing-v0", entry_point=Drawing)
    for _ in range(2):
        probe(EnvConfig(env="Drawing-v0"))

    assert drawn[0] == drawn[1]


def test_training_and_evaluation_envs_get_their_own_seeds_by_run_wide_index():
    made = []

    class Seen(Given):
        def __init__(self):
            super().__init__()
            made.append(self)

    gym.register("Seen-v0", entry_point=Seen)
    cfg = EnvConfig(env="Seen-v0", num_envs=2)
    spec = probe(cfg)
    for role in ("train", "eval"):
        env = make_env(cfg, seed=3, first_index=4, role=role, spec=spec)
        assert isinstance(env, SyncEnv)
        env.reset()

    train, evaluation = [env.seeds for env in made[1:3]], [env.seeds for env in made[3:5]]
    assert train == [[env_seed(3, 4)], [env_seed(3, 5)]]
    assert evaluation == [[eval_seed(3, 4)], [eval_seed(3, 5)]]
    assert len(made) == 5, "a spec given saves the probe"


def test_an_env_that_is_not_the_probed_one_is_refused_and_closed():
    envs = []

    class Growing(Given):
        def __init__(self):
            envs.append(self)
            super().__init__(Box(-1, 1, (len(envs),), np.float32), np.zeros(len(envs)))

    gym.register("Growing-v0", entry_point=Growing)
    cfg = EnvConfig(env="Growing-v0", num_envs=1)
    spec = probe(cfg)

    with pytest.raises(EnvError, match="Growing-v0: obs_dim is 2, but it was 1 when the env was probed"):
        make_env(cfg, seed=0, spec=spec)
    assert [env.closed for env in envs] == [1, 1]


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Pendulm-v1", ["unknown env id 'Pendulm-v1'", "did you mean 'Pendulum-v1'?"]),
        ("halfcheetah-v5", ["did you mean 'HalfCheetah-v5'?"]),
        ("HalfCheetah-v9", ["use 'HalfCheetah-v5'"]),
        ("HalfCheetah-v3", ["use 'HalfCheetah-v5'"]),
        ("Humanoid-v2", ["use 'Humanoid-v5'"]),
        (
            "no_such_module_x:Foo-v0",
            ["cannot import module 'no_such_module_x'", "No module named 'no_such_module_x'"],
        ),
        ("env_samples:Keyde-v0", ["unknown env id", "did you mean 'Keyed-v0'?"]),
        ("Zzz/Qqqqqqqqq-v1", ["unknown env id 'Zzz/Qqqqqqqqq-v1'", "module:Id"]),
        ("a b c", ["unknown env id 'a b c'"]),
        ("", ["unknown env id ''"]),
        ("env_samples:", ["unknown env id 'env_samples:'"]),
        ("CartPole-v1", ["CartPole-v1", "action space is Discrete", "Box actions", "finite bounds"]),
        ("FrozenLake-v1", ["FrozenLake-v1", "Discrete"]),
        ("env_samples:BadInit-v0", ["cannot be made", "FileNotFoundError: no red model in /nowhere"]),
    ],
)
def test_an_id_that_cannot_be_trained_on_is_refused_in_one_sentence(env, words):
    text = refusal(env)

    assert not [word for word in words if word not in text], text


def test_wrong_env_kwargs_are_named():
    text = refusal("Pendulum-v1", env_kwargs={"gravity": 3})

    assert "with env_kwargs {'gravity': 3}" in text
    assert "unexpected keyword argument 'gravity'" in text


def test_right_env_kwargs_reach_the_constructor():
    assert "no blue model" in refusal("env_samples:BadInit-v0", env_kwargs={"colour": "blue"})
    assert probe(EnvConfig(env="Pendulum-v1", env_kwargs={"g": 1.0})).obs_dim == 3


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize("bound", [(-np.inf, np.inf), (0.0, np.inf)])
def test_unbounded_actions_are_refused_before_the_env_is_stepped_and_a_bound_helps(bound):
    env = Given(action_space=Box(*bound, (2,), np.float32))
    gym.register("Open-v0", entry_point=lambda: env)

    assert "action dimension 0 is unbounded" in refusal("Open-v0")
    assert not env.actions
    assert probe(EnvConfig(env="Open-v0", action_bound=4.0)).action_high == (4.0, 4.0)
    assert "has no effect" in refusal("Pendulum-v1", action_bound=4.0)


def test_an_env_whose_first_step_or_reset_fails_is_refused():
    gym.register("BadStep-v0", entry_point=lambda: Given(action_space=Box(-1, 1, (1,)), obs=np.zeros(3)))
    assert "its first reset raised EnvError: the observation has shape (3,)" in refusal("BadStep-v0")
    assert "its first step raised ValueError: boom" in refusal("env_samples:Failing-v0", env_kwargs={"at": 1})


def test_a_discrete_observation_is_refused():
    gym.register("DiscreteObs-v0", entry_point=lambda: Given(space=Discrete(3)))

    assert "observation space is Discrete" in refusal("DiscreteObs-v0")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_envs", 0),
        ("vec", "ray"),
        ("action_bound", -1.0),
        ("action_bound", float("inf")),
        ("critic_keys", ("a", "a")),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_name(field, value):
    with pytest.raises(ConfigError, match=field):
        EnvConfig(**{field: value})


def test_the_config_travels_to_a_worker():
    cfg = EnvConfig(env_kwargs={"a": 1}, critic_keys=("x",))

    assert pickle.loads(pickle.dumps(cfg)) == cfg


def test_the_toy_env_needs_no_gymnasium():
    code = (
        "import sys; from unilab.envs.registry import *;"
        "make_env(EnvConfig(env='unilab/Toy-v0'), seed=0).reset();"
        "assert not {'gymnasium', 'torch', 'mujoco'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)

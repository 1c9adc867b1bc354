"""The envpool backend; the rules that need the package run where it is installed (`pip install .[envpool]`)."""

import sys

import numpy as np
import pytest

from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import EnvError
from unilab.seeding import env_seed


def cfg(env="HalfCheetah-v5", n=1, **kwargs):
    return EnvConfig(env=env, backend="envpool", num_envs=n, **kwargs)


def test_without_the_package_the_refusal_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)

    with pytest.raises(EnvError, match="backend=envpool needs the package: pip install"):
        probe(cfg())


def test_the_reset_step_of_envpool_is_no_row_and_the_successor_is_the_true_one():
    envpool = pytest.importorskip("envpool")
    n, limit = 3, 4
    env = make_env(cfg(n=n, env_kwargs={"max_episode_steps": limit}), seed=2, first_index=1, threads=2)
    # The oracle steps each env by itself and throws the reset step away.
    alone = [
        envpool.make_gymnasium(
            "HalfCheetah-v5", num_envs=1, env_seed=[env_seed(2, 1 + i)], max_episode_steps=limit, num_threads=1
        )
        for i in range(n)
    ]
    obs = env.reset()["obs"]
    np.testing.assert_array_equal(obs, np.concatenate([one.reset()[0] for one in alone]).astype(np.float32))

    rng = np.random.default_rng(0)
    for k in range(1, 3 * limit + 1):
        action = rng.uniform(-1, 1, (n, 6)).astype(np.float32)
        step = env.step(action)
        for i, one in enumerate(alone):
            theirs, reward, terminated, truncated, info = one.step(action[i : i + 1].astype(np.float64))
            np.testing.assert_array_equal(step.next_obs["obs"][i], theirs[0].astype(np.float32))
            assert step.reward[i] == np.float32(reward[0])
            assert (step.terminated[i], step.truncated[i]) == (terminated[0], truncated[0]) == (False, k % limit == 0)
            assert step.metrics["reward_ctrl"][i] == np.float32(info["reward_ctrl"][0])
            if truncated[0]:
                theirs = one.step(action[i : i + 1].astype(np.float64))[0]  # the reset step
            np.testing.assert_array_equal(step.obs["obs"][i], theirs[0].astype(np.float32))
    env.close()
    env.close()


def test_the_spec_is_read_from_the_pool():
    pytest.importorskip("envpool")
    spec = probe(cfg("CheetahRun-v1"))

    assert (spec.obs_dim, spec.action_dim, spec.obs_keys) == (17, 6, ("position", "velocity"))
    assert probe(cfg()).metric_names == ("reward_ctrl", "reward_run", "x_position", "x_velocity")
    assert probe(cfg()).max_episode_steps == 1000


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (cfg("HalfCheeta-v5"), "did you mean 'HalfCheetah-v5'?"),
        (cfg("CartPole-v1"), "action space is Discrete"),
        (cfg(env_kwargs={"foo": 3}), "unexpected keyword argument 'foo'"),
        (cfg(env_kwargs={"num_envs": 3}), "is set by unilab"),
        (cfg(vec="async"), "vec=async has no effect"),
    ],
)
def test_what_envpool_cannot_do_is_refused_in_one_sentence(config, words):
    pytest.importorskip("envpool")
    with pytest.raises(EnvError) as error:
        probe(config)
    assert words in str(error.value)
    assert "\n" not in str(error.value)

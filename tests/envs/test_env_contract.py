"""docs/design.md, contract 1: one test for every backend and every autoreset mode."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from env_samples import TAGS, Tagged
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.vector_adapter import VectorAdapter
from unilab.seeding import env_seed

N, SEED, FIRST, STEPS = 3, 7, 4, 20
SEEDS = [env_seed(SEED, FIRST + i) for i in range(N)]
NAMES = ("is_success", "tick")


def actions(dim=1):
    """[STEPS, N, dim]; -1, 0 and 1 come in turn."""
    flat = np.resize(np.array([-1, 0, 1, 0.25], np.float32), STEPS * N * dim)
    return flat.reshape(STEPS, N, dim)


def by_config(vec, length):
    cfg = EnvConfig(env="env_samples:Tagged-v0", num_envs=N, vec=vec, env_kwargs={"length": length})
    return make_env(cfg, seed=SEED, first_index=FIRST)


def by_adapter(vector_env, mode, length, **kwargs):
    vec = vector_env([partial(Tagged, length=length)] * N, autoreset_mode=mode, **kwargs)
    return VectorAdapter(vec, seeds=SEEDS, metric_names=NAMES, first_index=FIRST)


BACKENDS = {
    "sync": partial(by_config, "sync"),
    "async": partial(by_config, "async"),
    "adapter-disabled": partial(by_adapter, SyncVectorEnv, AutoresetMode.DISABLED),
    "adapter-same-step": partial(by_adapter, SyncVectorEnv, AutoresetMode.SAME_STEP),
    "adapter-next-step": partial(by_adapter, SyncVectorEnv, AutoresetMode.NEXT_STEP),
    "adapter-no-copy": partial(by_adapter, SyncVectorEnv, AutoresetMode.NEXT_STEP, copy=False),
    "adapter-async-next-step": partial(
        by_adapter, AsyncVectorEnv, AutoresetMode.NEXT_STEP, context="spawn", copy=False
    ),
}


def by_hand(length):
    """The same transitions from bare envs; [STEPS, N, columns]: obs, next_obs, acted obs, reward, flags."""
    rows = []
    for i, seed in enumerate(SEEDS):
        env = Tagged(length=length)
        obs, _ = env.reset(seed=seed)
        for action in actions()[:, i]:
            next_obs, reward, terminated, truncated, _ = env.step(np.float32([-3 + (action[0] + 1) * 4]))
            after = env.reset()[0] if terminated or truncated else next_obs
            rows.append([*obs, *next_obs, *after, reward, terminated, truncated, terminated, env.tick])
            obs = after
    table = np.array(rows, np.float32).reshape(N, STEPS, -1).swapaxes(0, 1)
    table[..., -1] = table[..., 5]  # the metric `tick` is that of the successor
    return table


@pytest.fixture(params=BACKENDS)
def rollout(request):
    """(length, table as in by_hand, list of the steps) of one backend; length 1 on all but the slow ones."""

    def play(length):
        env = BACKENDS[request.param](length)
        obs, rows, steps = env.reset()["obs"], [], []
        for action in actions():
            step = env.step(action)
            columns = [step.reward, step.terminated, step.truncated, *(step.metrics[name] for name in NAMES)]
            columns = np.stack(columns, axis=1)
            rows.append(np.concatenate([obs, step.next_obs["obs"], step.obs["obs"], columns], axis=1))
            steps.append(step)
            obs = step.obs["obs"].copy()
        env.close()
        env.close()
        return np.array(rows), steps

    return play


@pytest.mark.parametrize("length", [3, 1])
def test_every_backend_and_autoreset_mode_gives_the_transitions_of_the_bare_envs(rollout, length):
    table, steps = rollout(length)

    expected = by_hand(length)
    np.testing.assert_array_equal(table, expected)

    obs, next_obs, after = table[..., 0:4], table[..., 4:8], table[..., 8:12]
    ended = table[..., 13:15].any(-1)
    assert (table[..., 13] != table[..., 14]).any(), "the sample ends in both ways"
    assert (table[..., 13] * table[..., 14]).any(), "and in both at once"
    assert (obs[..., 0] == np.array(SEEDS) % TAGS).all()
    assert (next_obs[..., 1] == obs[..., 1] + 1).all(), "the true successor, also at an episode's end"
    assert (table[..., 12] == obs[..., 1]).all(), "the reward belongs to the state acted in"
    assert (after[ended][:, 1] % 1000 == 0).all(), "the policy acts on the reset observation"
    assert (after[~ended] == next_obs[~ended]).all()

    # Kept arrays still hold what the rows held when they were new: nothing wrote into them later.
    np.testing.assert_array_equal(np.array([step.next_obs["obs"] for step in steps]), next_obs)
    np.testing.assert_array_equal(np.array([step.obs["obs"] for step in steps]), after)
    assert not any(np.shares_memory(step.obs["obs"], step.next_obs["obs"]) for step in steps)
    for step in steps:
        assert (step.reward.dtype, step.terminated.dtype, step.truncated.dtype) == (np.float32, bool, bool)
        assert step.obs["obs"].dtype == step.next_obs["obs"].dtype == np.float32
        assert [m.dtype for m in step.metrics.values()] == [np.float32, np.float32]


@pytest.mark.parametrize("ends", ["terminated", "truncated", "both", "mixed"])
@pytest.mark.parametrize("length", [1, 5, 1000])
def test_the_toy_env_keeps_the_contract(ends, length):
    kwargs = {"episode_length": length, "ends": ends, "length_step": 1, "critic_extra": 2, "action_dim": 2}
    env = make_env(EnvConfig(env="unilab/Toy-v0", num_envs=N, env_kwargs=kwargs), seed=0, first_index=FIRST)
    obs, kept = env.reset(), []

    for k in range(2100 if length == 1000 else STEPS):
        step = env.step(np.zeros((N, 2), np.float32))
        ended = step.terminated | step.truncated
        now, then, after = obs["obs"], step.next_obs["obs"], step.obs["obs"]
        assert (now[:, 0] == np.arange(FIRST, FIRST + N)).all()
        assert (then[:, :3] == now[:, :3] + [0, 1, 1]).all()
        assert (step.reward == now[:, 1]).all()
        assert (ended == (then[:, 2] == length + np.arange(FIRST, FIRST + N))).all()
        assert (after[~ended] == then[~ended]).all()
        assert (after[ended, 1] % 1000 == 0).all()
        assert (after[ended, 1] > then[ended, 1]).all()
        assert (after[ended, 2] == 0).all()
        assert (step.next_obs["critic"][:, :3] == then).all()
        assert (step.next_obs["critic"][:, 3:] == -(then[:, [1]] + [3, 4])).all()
        if ends != "mixed":
            assert (step.terminated == (ended & (ends != "truncated"))).all()
            assert (step.truncated == (ended & (ends != "terminated"))).all()
        kept.append((step.next_obs["obs"], then.copy(), k))
        obs = step.obs
    assert all((a == b).all() for a, b, _ in kept)


def test_both_kinds_of_a_gymnasium_id_are_batch_envs_with_the_same_spec():
    env = by_config("sync", 3)

    assert env.num_envs == N
    assert env.spec.metric_names == NAMES
    assert (env.spec.obs_dim, env.spec.action_dim, env.spec.critic_dim) == (4, 1, 0)
    assert (env.spec.action_low, env.spec.action_high) == ((-3.0,), (5.0,))
    assert gym.spec("Tagged-v0").max_episode_steps is env.spec.max_episode_steps is None

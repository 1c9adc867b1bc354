"""``--on-nan``: what stop and skip do with values that are not finite, and that every backend can skip."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from unilab.envs.bad_values import make_rule
from unilab.envs.base import EnvStep, ResetsSome
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import evaluate
from unilab.envs.vector_adapter import VectorAdapter
from unilab.errors import EnvError, NonFinite

N = 3
STEPS = np.array([5, 6, 7])


class Counting(gym.Env):
    """Observes how often it was reset and how long ago; ``bad`` names resets, steps and rewards that are NaN."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, bad=(), length=1000):
        self.bad, self.length, self.resets = set(bad), length, 0

    def reset(self, *, seed=None, options=None):
        self.resets, self.k = self.resets + 1, 0
        return self.obs(("reset", self.resets)), {}

    def step(self, action):
        self.k += 1
        reward = np.nan if ("reward", self.resets, self.k) in self.bad else 1.0
        return self.obs((self.resets, self.k)), reward, False, self.k >= self.length, {"tick": self.k}

    def obs(self, moment):
        return np.array([np.nan if moment in self.bad else self.resets, self.k], np.float64)


gym.register("Counting-v0", entry_point=Counting)


class Batch:
    """Three envs of scripted steps."""

    def __init__(self, *resets):
        self.num_envs, self.resets, self.asked = N, list(resets), []
        self.spec = type("Spec", (), {"env_id": "Batch-v0"})()

    def reset_envs(self, which):
        self.asked.append(which.tolist())
        return {"obs": self.resets.pop(0)}


def rows(*values):
    return np.repeat(np.float32(values)[:, None], 2, axis=1)


def step(reward=(0, 1, 2), next_obs=(0, 10, 20), obs=None, terminated=(0, 0, 0)):
    return EnvStep(
        obs={"obs": rows(*(next_obs if obs is None else obs))},
        reward=np.float32(reward),
        terminated=np.array(terminated, bool),
        truncated=np.zeros(N, bool),
        next_obs={"obs": rows(*next_obs)},
        metrics={"tick": np.float32([1, 2, 3])},
    )


def skip(*resets):
    batch, said = Batch(*resets), []
    return make_rule("skip", batch, 10, said.append), batch, said


def test_a_good_step_is_left_alone():
    rule, batch, said = skip()
    good = step()

    assert rule.check(good, STEPS) is None
    assert (batch.asked, said) == ([], [])


@pytest.mark.parametrize("bad", [{"reward": (0, np.nan, 2)}, {"next_obs": (0, np.inf, 20)}])
def test_a_bad_transition_is_skipped_and_its_env_begins_anew(bad):
    rule, batch, said = skip(rows(-1, -2, -3))
    it = step(**bad)

    assert rule.check(it, STEPS).tolist() == [False, True, False]
    assert batch.asked == [[False, True, False]]
    assert it.obs["obs"][:, 0].tolist() == [0, -2, 20]
    assert it.reward.tolist() == [0, 0, 2]
    np.testing.assert_array_equal(it.metrics["tick"], np.float32([1, np.nan, 3]))
    assert len(said) == 1
    assert "is not finite" in said[0]
    assert "in env index 11, step 6" in said[0]
    assert "dropped" in said[0]


def test_an_env_that_ended_with_a_bad_value_has_its_reset_already_and_has_not_ended_for_the_collector():
    rule, batch, _ = skip()
    it = step(next_obs=(0, np.nan, 20), obs=(0, 5, 20), terminated=(0, 1, 1))

    assert rule.check(it, STEPS).tolist() == [False, True, False]
    assert batch.asked == []
    assert it.obs["obs"][:, 0].tolist() == [0, 5, 20]
    assert it.terminated.tolist() == [False, False, True]


def test_a_bad_reset_observation_is_drawn_again_and_its_transition_stored():
    rule, batch, said = skip(rows(1, np.nan, 3), rows(7, 8, 9))
    it = step(obs=(0, np.nan, 20), terminated=(0, 1, 0))

    assert rule.check(it, STEPS) is None
    assert batch.asked == [[False, True, False]] * 2
    assert it.obs["obs"][:, 0].tolist() == [0, 8, 20]
    assert it.terminated.tolist() == [False, True, False]
    assert all("reset obs[0] = nan" in line for line in said)
    assert len(said) == 2


def test_an_env_whose_every_reset_is_bad_ends_the_run():
    rule, batch, _ = skip(*[rows(np.nan, 0, 0)] * 10)

    with pytest.raises(NonFinite, match=r"reset obs\[0\] = nan"):
        rule.check_reset({"obs": rows(np.nan, 1, 2)}, STEPS)
    assert len(batch.asked) == 10


def test_after_a_few_it_only_counts():
    rule, _, said = skip(*[rows(0, 0, 0)] * 20)
    for _ in range(20):
        assert rule.check(step(reward=(np.nan, 1, 2)), STEPS).sum() == 1

    assert len(said) == 6
    assert "rollout/skipped_steps" in said[-1]


def test_stop_raises_at_once():
    rule = make_rule("stop", Batch(), 10, print)

    with pytest.raises(NonFinite, match=r"reward = nan .* env index 12, step 7"):
        rule.check(step(reward=(0, 1, np.nan)), STEPS)
    with pytest.raises(NonFinite, match=r"reset obs\[0\] = nan .* env index 10"):
        rule.check_reset({"obs": rows(np.nan, 1, 2)}, STEPS)
    assert rule.check(step(), STEPS) is None


def test_skip_is_refused_for_an_env_that_cannot_do_it():
    class Whole(Batch):
        reset_envs = None

    whole = Whole()
    assert isinstance(whole, ResetsSome) is False
    with pytest.raises(EnvError, match=r"Batch-v0 cannot reset one of its envs alone.*on_nan=stop"):
        make_rule("skip", whole, 0, print)


# ------------------------------------------------------------ backends


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_gymnasium_envs_are_reset_one_by_one(vec):
    cfg = EnvConfig(env="test_bad_values:Counting-v0", num_envs=N, vec=vec)
    check_resets_of_one(make_env(cfg, seed=0), lambda obs: obs[:, 0])


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
def test_vector_envs_are_reset_one_by_one(mode):
    check_resets_of_one(
        VectorAdapter(SyncVectorEnv([Counting] * N, autoreset_mode=mode), seeds=[0] * N), lambda obs: obs[:, 0]
    )


def test_a_vector_env_that_cannot_says_so():
    env = VectorAdapter(SyncVectorEnv([Counting] * N, autoreset_mode=AutoresetMode.SAME_STEP), seeds=[0] * N)
    env.reset()

    with pytest.raises(EnvError, match="SAME_STEP mode cannot reset some"):
        env.reset_envs(np.array([True, False, False]))
    env.close()


def test_the_toy_is_reset_one_by_one():
    check_resets_of_one(make_env(EnvConfig(env="unilab/Toy-v0", num_envs=N), seed=0), lambda obs: obs[:, 1] // 1000)


def check_resets_of_one(env, episode):
    """``episode`` gives the number of the episode in a column of observations."""
    still = np.zeros((N, env.spec.action_dim), np.float32)
    first = episode(env.reset()["obs"])
    env.step(still)
    fresh = env.reset_envs(np.array([False, True, False]))
    after = env.step(still).next_obs["obs"]

    assert episode(fresh["obs"])[1] == first[1] + 1
    assert (episode(after) - first).tolist() == [0, 1, 0]
    env.close()


@pytest.mark.parametrize("backend", ["mujoco", "gymnasium"])
def test_a_mujoco_env_begins_anew_alone(backend):
    env = make_env(EnvConfig(env="InvertedPendulum-v5", num_envs=N, backend=backend), seed=0)
    twin = make_env(EnvConfig(env="InvertedPendulum-v5", num_envs=N, backend=backend), seed=0)
    push = np.full((N, 1), 0.02, np.float32)
    env.reset(), twin.reset()
    for _ in range(3):
        moved = env.step(push).obs["obs"], twin.step(push).obs["obs"]
    fresh = env.reset_envs(np.array([False, True, False]))["obs"]

    assert np.abs(fresh[1]).max() <= 0.01 < np.abs(moved[0][1]).max()  # reset noise of the task
    after, other = env.step(push).next_obs["obs"], twin.step(push).next_obs["obs"]
    np.testing.assert_array_equal(after[[0, 2]], other[[0, 2]])
    assert not np.array_equal(after[1], other[1])
    env.close(), twin.close()


def test_an_envpool_env_begins_anew_alone():
    pytest.importorskip("envpool")
    env = make_env(EnvConfig(env="InvertedPendulum-v4", num_envs=N, backend="envpool"), seed=0)
    push = np.full((N, 1), 0.02, np.float32)
    env.reset()
    for _ in range(3):
        moved = env.step(push).obs["obs"]
    fresh = env.reset_envs(np.array([False, True, False]))["obs"]

    assert np.abs(fresh[1]).max() <= 0.01 < np.abs(moved[1]).max()
    env.close()


# ------------------------------------------------------------ evaluation


def evaluated(episodes, on_nan="skip", **kwargs):
    env = make_env(EnvConfig(env="test_bad_values:Counting-v0", env_kwargs=kwargs, num_envs=1), seed=0)
    still = np.zeros((1, 1), np.float32)
    rule = make_rule(on_nan, env, 0, lambda _: None)
    try:
        return evaluate(env, lambda _: still, episodes, on_bad=rule)
    finally:
        env.close()


def test_an_evaluation_plays_a_skipped_episode_again():
    results = evaluated(3, length=4, bad=[(2, 3)])

    assert results.returns.tolist() == [4, 4, 4]
    assert results.lengths.tolist() == [4, 4, 4]


def test_an_evaluation_that_only_skips_ends():
    with pytest.raises(NonFinite, match="3 episodes had a NaN or an infinity before 2 were played"):
        evaluated(2, length=4, bad=[("reward", resets, 2) for resets in range(100)])


sys.modules.setdefault("test_bad_values", sys.modules[__name__])  # found by its id in this process

import gymnasium as gym
import numpy as np
import pytest
from env_samples import UNIT, Given, Keyed, Tagged
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from unilab.envs.vector_adapter import VectorAdapter
from unilab.errors import EnvError

ZEROS = np.zeros((2, 1), np.float32)


class Foreign(VectorEnv):
    """A vector env of two that ends env 1 in every step; what it does about that is chosen."""

    num_envs = 2
    single_observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    single_action_space = UNIT
    action_space = batch_space(UNIT, 2)

    def __init__(self, mode, infos=None, resets_all=False):
        self.metadata = {"autoreset_mode": mode} if mode else {}
        self.infos, self.resets_all, self.seeds = infos or {}, resets_all, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.obs = np.array([[10.0], [10.0]], np.float32)
        if options and not self.resets_all:
            self.obs = np.where(options["reset_mask"][:, None], self.obs, 1.0)
        return self.obs, {}

    def step(self, actions):
        self.obs = np.array([[1.0], [1.0]], np.float32)
        return self.obs, np.zeros(2), np.array([False, True]), np.zeros(2, bool), self.infos


def adapted(vec, **kwargs):
    env = VectorAdapter(vec, seeds=[5, 6], env_id="F-v0", **kwargs)
    env.reset()
    return env


def test_a_foreign_vector_env_without_autoreset_is_reset_by_mask():
    step = adapted(Foreign(AutoresetMode.DISABLED)).step(ZEROS)

    assert step.next_obs["obs"].tolist() == [[1], [1]]
    assert step.obs["obs"].tolist() == [[1], [10]]


def test_a_foreign_vector_env_gets_one_seed_and_only_once():
    vec = Foreign(AutoresetMode.DISABLED)
    adapted(vec).reset()

    assert vec.seeds == [5, None]


@pytest.mark.parametrize(
    "final_obs",
    [np.array([None, np.float32([7])], object), np.float32([[0], [7]])],
    ids=["object array", "batched array"],
)
def test_in_same_step_mode_the_successor_is_the_final_observation(final_obs):
    step = adapted(Foreign("SameStep", infos={"final_obs": final_obs})).step(ZEROS)

    assert step.next_obs["obs"].tolist() == [[1], [7]]
    assert step.obs["obs"].tolist() == [[1], [1]]


@pytest.mark.parametrize("infos", [{}, {"final_obs": np.array([None, None], object)}])
def test_an_ended_env_without_final_observation_is_an_error_never_a_reset_row(infos):
    env = adapted(Foreign(AutoresetMode.SAME_STEP, infos=infos), first_index=4)

    with pytest.raises(EnvError, match=r'env index 5 ended at step 1 without info\["final_obs"\]'):
        env.step(ZEROS)


def test_a_vector_env_that_ignores_the_mask_is_found_out():
    with pytest.raises(EnvError, match="ignores reset_mask"):
        adapted(Foreign(AutoresetMode.DISABLED, resets_all=True)).step(ZEROS)


@pytest.mark.parametrize(
    ("mode", "words"),
    [(AutoresetMode.NEXT_STEP, "Foreign uses NEXT_STEP"), (None, "does not say"), ("x", "not say")],
)
def test_a_mode_that_cannot_be_adapted_is_refused_in_one_sentence(mode, words):
    with pytest.raises(EnvError, match=f"^F-v0: .*{words}"):
        adapted(Foreign(mode))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_metrics_are_those_of_the_step_in_every_mode(mode):
    envs = [lambda: Given(info={"a": 1.0}, ended=True), lambda: Given(info={"b": 2}, reset_info={"b": 9})]
    env = adapted(SyncVectorEnv(envs, autoreset_mode=mode), metric_names=("a", "b"))

    for _ in range(3):
        step = env.step(ZEROS)
        np.testing.assert_array_equal(step.metrics["a"], [1, np.nan])
        np.testing.assert_array_equal(step.metrics["b"], [np.nan, 2])


def test_dict_observations_of_a_vector_env_are_split_into_groups():
    env = adapted(SyncVectorEnv([Keyed, Keyed], autoreset_mode="SameStep"), critic_keys=("secret",))

    assert env.reset()["critic"].tolist() == [[3, 4, 5, 1, 2, 9]] * 2
    assert env.step(ZEROS).next_obs["obs"].tolist() == [[3, 4, 5, 1, 2]] * 2
    assert (env.spec.obs_keys, env.spec.critic_keys) == (("arm", "vel"), ("secret",))


def test_dict_final_observations_are_read_by_key():
    class Ending(Keyed):
        def step(self, action):
            obs, *_ = super().step(action)
            obs["vel"] = np.array([6.0, 7.0])
            return obs, 0.0, False, True, {}

    step = adapted(SyncVectorEnv([Ending, Ending], autoreset_mode="SameStep")).step(ZEROS)

    assert step.next_obs["obs"].tolist() == [[3, 4, 5, 9, 6, 7]] * 2
    assert step.obs["obs"].tolist() == [[3, 4, 5, 9, 1, 2]] * 2


def test_wrapped_gymnasium_vector_envs_are_recognised():
    vec = gym.wrappers.vector.TransformReward(SyncVectorEnv([Tagged, Tagged]), lambda reward: reward * 2)

    assert adapted(vec).step(ZEROS).reward.tolist() == [2000, 2000]


def test_an_exception_is_noted_with_the_range_of_envs():
    def boom(reward):
        raise ValueError("boom")

    env = adapted(gym.wrappers.vector.TransformReward(SyncVectorEnv([Tagged, Tagged]), boom), first_index=3)

    with pytest.raises(ValueError, match="boom") as error:
        env.step(ZEROS)
    assert error.value.__notes__ == ["one of env indices 3 to 4, step 1"]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_image_observations_of_a_step_share_no_memory(mode):
    def make():
        return Given(space=Box(0, 255, (2, 2), np.uint8), obs=np.full((2, 2), 255, np.uint8))

    step = adapted(SyncVectorEnv([make, make], autoreset_mode=mode)).step(ZEROS)

    assert (step.next_obs["obs"] == 255).all()
    assert not np.shares_memory(step.next_obs["obs"], step.obs["obs"])

import numpy as np
import pytest
from env_samples import Failing, Given, InPlace, Keyed, Tagged, TwoArgumentError, WeirdInfo
from gymnasium.spaces import Box

from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.envs.gymnasium_spec import spec_of
from unilab.envs.gymnasium_sync import SyncEnv
from unilab.errors import EnvError


def sync(*envs, metric_names=(), critic_keys=(), first_index=0):
    layout = ObsLayout("E-v0", envs[0].observation_space, critic_keys)
    scale = ActionScale("E-v0", envs[0].action_space)
    spec = spec_of("E-v0", layout, scale, metric_names)
    seeds = [100 + i for i in range(len(envs))]
    return SyncEnv(envs, layout, scale, spec, seeds=seeds, first_index=first_index)


def zeros(env):
    return np.zeros((env.num_envs, env.spec.action_dim), np.float32)


def first_step(*envs, **kwargs):
    env = sync(*envs, **kwargs)
    env.reset()
    return env.step(zeros(env))


def test_an_env_that_writes_into_one_array_cannot_change_what_it_returned():
    env = sync(InPlace(), InPlace())
    obs = env.reset()
    kept = [obs["obs"]]
    steps = [env.step(zeros(env)) for _ in range(9)]

    acted = kept + [step.obs["obs"] for step in steps]
    assert [rows[1, 0] for rows in acted] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [step.next_obs["obs"][1, 0] for step in steps] == [1, 2, 3, 4, 1, 2, 3, 4, 1]
    assert [step.reward[0] for step in steps] == [1, 2, 3, 4, 1, 2, 3, 4, 1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "reward",
    [np.array([1.0]), np.float64(1), 1, True, np.array(1.0, np.float32), np.int64(1), [1.0], np.array([[1]])],
)
def test_a_reward_is_one_number_whatever_its_type(reward):
    step = first_step(Given(reward=reward), Given(reward=reward))

    assert step.reward.tolist() == [1.0, 1.0]
    assert step.reward.dtype == np.float32


@pytest.mark.parametrize("reward", [None, np.zeros(2), "much", [], np.array([None])])
def test_anything_else_as_a_reward_is_refused_with_the_env_named(reward):
    with pytest.raises(EnvError, match="reward must be one number") as error:
        first_step(Given(), Given(reward=reward), first_index=4)
    assert error.value.__notes__ == ["env index 5, step 1"]


def test_a_reward_beyond_float32_and_a_nan_are_left_for_the_finite_check():
    assert first_step(Given(), Given(reward=1e300)).reward.tolist() == [0.0, np.inf]
    assert np.isnan(first_step(Given(reward=np.nan)).reward[0])


@pytest.mark.parametrize("ended", [True, 1, np.bool_(True), np.array(True), np.array([True])])
def test_flags_are_read_by_their_truth(ended):
    step = first_step(Given(ended=ended))

    assert step.terminated.tolist() == [True]
    assert step.truncated.tolist() == [False]


@pytest.mark.parametrize("info", [None, {}, [], {"score": None}, {"score": "1"}, {"score": np.zeros(2)}])
def test_a_metric_that_is_missing_or_no_number_is_nan_for_that_env_only(info):
    step = first_step(Given(info=info), Given(info={"score": 2, "other": 3}), metric_names=("score",))

    np.testing.assert_array_equal(step.metrics["score"], [np.nan, 2.0])
    assert list(step.metrics) == ["score"]


def test_infos_with_new_keys_and_odd_values_do_no_harm():
    env = sync(WeirdInfo(), WeirdInfo(), metric_names=("is_success", "key3"))
    env.reset()

    for _ in range(50):
        step = env.step(zeros(env))
        assert step.reward.tolist() == [1, 1]
        assert list(step.metrics) == ["is_success", "key3"]


@pytest.mark.parametrize(
    ("env", "error_type", "note"),
    [
        (Failing("step"), ValueError, "env index 8, step 2"),
        (Failing("odd"), TwoArgumentError, "env index 8, step 2"),
        (Failing("reset"), RuntimeError, "env index 8, step 1"),
    ],
)
def test_an_exception_of_an_env_passes_unchanged_with_the_env_and_step_noted(env, error_type, note):
    batch = sync(Failing("never"), env, first_index=7)
    batch.reset()

    with pytest.raises(error_type) as error:  # noqa: PT012 - in the first or in the second step
        batch.step(zeros(batch))
        batch.step(zeros(batch))
    assert type(error.value) is error_type
    assert error.value.__notes__ == [note]


def test_an_exception_in_the_first_reset_is_noted_too():
    env = Given(obs=np.zeros(3))

    with pytest.raises(EnvError, match="has shape") as error:
        sync(Given(), env).reset()
    assert error.value.__notes__ == ["env index 1, reset after step 0"]


def test_each_env_gets_its_own_seed_once():
    envs = [Given(ended=True), Given(ended=True)]
    env = sync(*envs)
    env.reset()
    env.step(zeros(env))
    env.reset()

    assert [e.seeds for e in envs] == [[100, None, None], [101, None, None]]


def test_an_env_gets_an_array_of_its_own_in_the_shape_and_dtype_of_its_space():
    env = Given(action_space=Box(-2, 2, (2, 2), np.float64))
    scalar = Given(action_space=Box(-2, 2, (), np.float32))
    first_step(env)
    first_step(scalar)

    assert isinstance(scalar.actions[0], np.ndarray)
    assert (scalar.actions[0].shape, scalar.actions[0].dtype) == ((), np.float32)
    assert (env.actions[0].shape, env.actions[0].dtype) == ((2, 2), np.float64)


def test_closing_closes_every_env_once_also_when_one_raises():
    class Stuck(Given):
        def close(self):
            raise OSError("stuck")

    last = Given()
    env = sync(Given(), Stuck(), last)

    with pytest.raises(OSError, match="stuck"):
        env.close()
    env.close()
    assert last.closed == 1


def test_the_critic_group_is_there_for_acting_and_as_successor():
    step = first_step(Keyed(), critic_keys=("secret",))

    assert step.obs["obs"].tolist() == step.next_obs["obs"].tolist() == [[3, 4, 5, 1, 2]]
    assert step.obs["critic"].tolist() == step.next_obs["critic"].tolist() == [[3, 4, 5, 1, 2, 9]]


def test_an_image_env_keeps_its_values_and_no_two_arrays_share_memory():
    image = np.full((4, 4, 3), 255, np.uint8)
    step = first_step(Given(space=Box(0, 255, (4, 4, 3), np.uint8), obs=image, ended=True))

    assert (step.next_obs["obs"] == 255).all()
    assert step.next_obs["obs"].shape == (1, 48)
    assert not np.shares_memory(step.next_obs["obs"], step.obs["obs"])


def test_actions_reach_the_env_scaled():
    env = sync(Tagged())
    env.reset()

    assert [env.step(np.float32([[a]])).next_obs["obs"][0, 3] for a in (-1, 0, 1)] == [-3, 1, 5]

import numpy as np
import pytest

from unilab.envs.base import EnvStep
from unilab.envs.finite import bad_envs, bad_rows, check_finite, check_finite_action, check_finite_reset, to_float32
from unilab.errors import NonFinite

STEPS = np.array([40, 50, 60])


def step(**bad):
    """A finite step of 3 envs but for obs or next_obs (group, env, column, value) or reward (env, value)."""
    groups = {
        name: {"obs": np.ones((3, 4), np.float32), "critic": np.ones((3, 6), np.float32)}
        for name in ("obs", "next_obs")
    }
    reward = np.zeros(3, np.float32)
    for name, (*place, value) in bad.items():
        if name == "reward":
            reward[place[0]] = value
        else:
            group, env, column = place
            groups[name][group][env, column] = value
    return EnvStep(groups["obs"], reward, np.zeros(3, bool), np.zeros(3, bool), groups["next_obs"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"next_obs": ("obs", 1, 3)}, r"obs\[3\] = {} is not finite.* in env index 11, step 50"),
        ({"next_obs": ("critic", 2, 5)}, r"critic\[5\] = {} is not finite.* in env index 12, step 60"),
        ({"obs": ("obs", 0, 2)}, r"reset obs\[2\] = {} is not finite.* in env index 10, step 40"),
        ({"reward": (2,)}, r"reward = {} is not finite.* in env index 12, step 60"),
    ],
)
def test_the_first_bad_value_is_named_with_array_column_env_and_step(bad, name, value):
    ((key, place),) = bad.items()

    with pytest.raises(NonFinite, match="^" + name.format(value)):
        check_finite(step(**{key: (*place, value)}), 10, STEPS)


@pytest.mark.filterwarnings("error")
def test_large_finite_values_are_finite():
    largest = np.finfo(np.float32).max

    check_finite(step(next_obs=("obs", 0, 0, largest), obs=("obs", 0, 0, -largest), reward=(0, largest)), 0, STEPS)


def test_a_bad_first_observation_is_named_too():
    with pytest.raises(NonFinite, match=r"reset obs\[1\] = nan is not finite in env index 8, step 0"):
        check_finite_reset({"obs": np.float32([[0, 0], [0, np.nan]])}, 7, np.zeros(2, np.int64))


@pytest.mark.filterwarnings("error")
def test_the_cast_to_float32_makes_infinities_of_what_it_would_lose_and_the_check_says_so():
    reward = to_float32(np.array([3e38, np.nan, -1e39]))

    np.testing.assert_array_equal(reward, np.float32([3e38, np.nan, -np.inf]))
    with pytest.raises(
        NonFinite, match=r"^reward = -inf is not finite, or beyond float32's range .* env index 7, step 60"
    ):
        check_finite(step(reward=(2, reward[2])), 5, STEPS)


def test_the_envs_whose_transition_must_not_be_stored():
    assert bad_rows(step()).tolist() == [False, False, False]
    assert bad_rows(step(next_obs=("critic", 1, 5, np.inf), reward=(2, np.nan))).tolist() == [False, True, True]
    assert bad_rows(step(obs=("obs", 1, 0, np.nan))).tolist() == [False, False, False]  # a reset observation
    assert bad_envs({"obs": np.float32([[0, 0], [0, np.nan]])}).tolist() == [False, True]


def test_a_bad_action_is_named_with_its_env_and_the_weights_that_chose_it():
    action = np.zeros((3, 2), np.float32)
    check_finite_action(action, 7, 10)
    action[1, 1] = np.inf
    with pytest.raises(NonFinite, match=r"action\[1\] = inf for env index 11, chosen with weight version 7"):
        check_finite_action(action, 7, 10)

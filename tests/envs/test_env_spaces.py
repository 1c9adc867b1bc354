from collections import OrderedDict

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.errors import EnvError, NonFinite


def box(shape, dtype=np.float32, low=0, high=200):
    return Box(low, high, shape, dtype)


def row_of(space, obs, critic_keys=()):
    layout = ObsLayout("E-v0", space, critic_keys)
    rows = layout.empty(1)
    layout.write(rows[0], obs)
    return {name: values[0].tolist() for name, values in layout.groups(rows).items()}


def scale(low, high, dtype=np.float32, bound=None):
    return ActionScale("E-v0", Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype), bound)


# Observations


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "uint16", "bool"])
def test_every_dtype_arrives_as_float32_with_its_value(dtype):
    space = Box(0, 1, (2,), np.bool_) if dtype == "bool" else box((2,), dtype, high=100)

    assert row_of(space, np.array([0, 1], dtype)) == {"obs": [0.0, 1.0]}


def test_uint8_is_not_rescaled():
    assert row_of(box((2,), np.uint8, high=255), np.array([0, 255], np.uint8)) == {"obs": [0.0, 255.0]}


def test_large_integers_do_not_wrap():
    assert row_of(Box(0, 2**40, (1,), np.int64), np.array([2**40])) == {"obs": [2.0**40]}


@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3), (1, 2, 3)])
def test_any_rank_is_flattened_in_c_order(shape):
    obs = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)

    assert row_of(box(shape), obs) == {"obs": obs.ravel().tolist()}


def test_a_transposed_array_is_flattened_by_its_indices_not_by_its_memory():
    obs = np.arange(6, dtype=np.float32).reshape(3, 2).T

    assert row_of(box((2, 3)), obs) == {"obs": [0, 2, 4, 1, 3, 5]}


def test_lists_tuples_and_numbers_are_observations_too():
    assert row_of(box((2,)), [1, 2]) == row_of(box((2,)), (1.0, 2.0)) == {"obs": [1, 2]}
    assert row_of(box(()), 3) == {"obs": [3]}


def test_a_plain_dict_space_is_read_in_sorted_order_and_an_ordered_one_in_its_own():
    parts = {"vel": box((2,)), "arm": box((1,))}
    obs = {"arm": [7], "vel": [1, 2]}

    assert row_of(Dict(parts), obs) == {"obs": [7, 1, 2]}
    assert row_of(Dict(OrderedDict(parts)), obs) == {"obs": [1, 2, 7]}
    assert row_of(Dict(list(parts.items())), obs) == {"obs": [1, 2, 7]}
    assert ObsLayout("E-v0", Dict(parts)).obs_keys == ("arm", "vel")


def test_the_policy_does_not_see_critic_keys_and_the_critic_sees_all():
    space = Dict({"a": box((1,)), "b": box((2,)), "c": box(()), "d": box((1,))})
    obs = {"a": [1], "b": [2, 3], "c": 4, "d": [5]}

    assert row_of(space, obs, ("c", "b")) == {"obs": [1, 5], "critic": [1, 5, 2, 3, 4]}

    layout = ObsLayout("E-v0", space, ("c", "b"))
    assert (layout.obs_keys, layout.critic_keys) == (("a", "d"), ("b", "c"))
    assert (layout.obs_dim, layout.critic_dim) == (2, 5)


def test_batched_observations_give_the_rows_of_single_ones():
    layout = ObsLayout("E-v0", Dict({"a": box((1, 2)), "b": box(())}))
    rows = layout.empty(2)
    layout.write_batch(rows, {"a": np.array([[[1, 2]], [[4, 5]]]), "b": np.array([3, 6])})

    assert rows.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("space", "obs", "words"),
    [
        (box((2,)), np.zeros(3), r"has shape \(3,\), its space says \(2,\)"),
        (box((2,)), np.zeros((1, 2)), r"has shape \(1, 2\), its space says \(2,\)"),
        (box((2,)), 0.0, r"has shape \(\), its space says \(2,\)"),
        (box((2,)), [[1], [1, 2]], "the observation is not an array"),
        (Dict({"a": box((2,))}), {"a": np.zeros(1)}, r"key 'a' has shape \(1,\), its space says \(2,\)"),
        (Dict({"a": box((2,))}), {"b": np.zeros(2)}, "no key 'a', only 'b'"),
        (Dict({"a": box((2,))}), np.zeros(2), "is ndarray, its space says Dict"),
    ],
)
def test_an_observation_that_breaks_its_space_is_named_with_both_shapes(space, obs, words):
    with pytest.raises(EnvError, match=words):
        row_of(space, obs)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Tuple([box((1,))]), "the observation space is Tuple, unilab takes a Box or a Dict of Boxes"),
        (Discrete(3), "the observation space is Discrete"),
        (Text(3), "the observation space is Text"),
        (
            Dict({"a": box((1,)), "b": Dict({"c": box((1,))})}),
            "key 'b' of the Dict observation is a nested Dict",
        ),
        (Dict({"a": Discrete(2)}), "key 'a' of the Dict observation is Discrete"),
        (box((0,)), "leaves no column for the policy"),
    ],
)
def test_other_observation_spaces_are_refused_in_one_sentence(space, words):
    with pytest.raises(EnvError, match=f"^E-v0: .*{words}") as error:
        ObsLayout("E-v0", space)
    assert "\n" not in str(error.value)


def test_unknown_critic_keys_are_refused_with_the_nearest_one():
    with pytest.raises(EnvError, match=r"critic key 'velocty' is not in .*did you mean 'velocity'"):
        ObsLayout("E-v0", Dict({"velocity": box((1,)), "arm": box((1,))}), ("velocty",))
    with pytest.raises(EnvError, match="needs a Dict observation"):
        ObsLayout("E-v0", box((1,)), ("a",))
    with pytest.raises(EnvError, match="leaves no column for the policy"):
        ObsLayout("E-v0", Dict({"a": box((1,))}), ("a",))


@pytest.mark.filterwarnings("error")
def test_a_nan_or_an_infinity_of_the_env_and_what_is_one_in_float32_pass_to_the_finite_check():
    layout = ObsLayout("E-v0", box((3,), np.float64, -np.inf, np.inf))

    out = layout.groups(np.array([[np.nan, np.inf, 1e-320], [0, 0, -1e300]]))["obs"]

    np.testing.assert_array_equal(out, np.float32([[np.nan, np.inf, 0], [0, 0, -np.inf]]))


# Actions


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([-3, 0, 10], [1, 0.5, 500]),
        ([-1, -2, -0.1], [1, 2, 0.1]),
        ([-1e30, 0.1, -7e-5], [1e-3, 0.3, 7e20]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_minus_one_zero_and_one_give_exactly_low_middle_and_high(low, high, dtype):
    bounds = np.array([low, high], dtype)
    middle = (bounds[0].astype(np.float64) / 2 + bounds[1].astype(np.float64) / 2).astype(dtype)

    out = scale(low, high, dtype)(np.float32([[-1] * 3, [0] * 3, [1] * 3]), 0, 1)

    assert out.dtype == dtype
    np.testing.assert_array_equal(out, [bounds[0], middle, bounds[1]])


def test_actions_stay_inside_the_bounds_after_rounding_to_the_dtype_of_the_space():
    low, high = np.float16(-0.1), np.float16(1234.5)
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (5000, 1)).astype(np.float32)

    out = scale([low], [high], np.float16)(actions, 0, 1)

    assert out.dtype == np.float16
    assert out.min() == low
    assert out.max() == high


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_actions_take_the_shape_of_the_space(shape):
    action_scale = ActionScale("E-v0", Box(-2, 2, shape, np.float32))
    size = int(np.prod(shape))

    out = action_scale(np.arange(2 * size, dtype=np.float32).reshape(2, size) / (2 * size), 0, 1)

    assert action_scale.dim == size
    assert out.shape == (2, *shape)
    np.testing.assert_allclose(out.ravel(), np.arange(2 * size) / size)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_action_that_is_not_finite_is_named(value):
    with pytest.raises(NonFinite, match=rf"action\[1\] = {value} is not finite for env index 12, step 3"):
        scale([-1, -1], [1, 1])(np.float32([[0, 0], [0, 0], [0, value]]), 10, 3)


def test_actions_of_another_width_are_our_own_bug():
    with pytest.raises(ValueError, match=r"shape \(2, 3\), expected \(num_envs, 2\)"):
        scale([-1, -1], [1, 1])(np.zeros((2, 3), np.float32), 0, 1)


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (Discrete(2), "Discrete"),
        (MultiDiscrete([2, 3]), "MultiDiscrete"),
        (MultiBinary(2), "MultiBinary"),
        (Tuple([Discrete(2)]), "Tuple"),
        (Dict({"a": Discrete(2)}), "Dict"),
        (Box(0, 9, (2,), np.int64), "Box of int64"),
        (Box(0, 1, (0,), np.float32), "no dimension"),
    ],
)
def test_other_action_spaces_are_refused_with_their_kind_and_what_is_supported(space, kind):
    with pytest.raises(EnvError, match=f"^E-v0: the action space .*{kind}.*Box actions of a float type") as error:
        ActionScale("E-v0", space)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("low", "high", "named"),
    [
        ([-1, -np.inf], [1, np.inf], r"dimension 1 is unbounded, \[-inf, inf\];"),
        ([0, 0], [np.inf, np.inf], r"dimension 0 is unbounded, \[0.0, inf\] \(2 of 2"),
        ([-np.inf, 0], [3, 1], r"dimension 0 is unbounded, \[-inf, 3.0\];"),
        ([-np.finfo(np.float32).max], [np.finfo(np.float32).max], "dimension 0 is unbounded"),
    ],
)
def test_open_dimensions_are_refused_with_their_bounds_and_the_fix(low, high, named):
    with pytest.raises(EnvError, match=f"^E-v0: action {named}.*--action-bound"):
        scale(low, high)


def test_an_action_bound_closes_open_sides_only():
    action_scale = scale([-np.inf, 0, -1], [np.inf, np.inf, 1], bound=5.0)

    assert action_scale.low == (-5.0, 0.0, -1.0)
    assert action_scale.high == (5.0, 5.0, 1.0)
    np.testing.assert_array_equal(action_scale(np.ones((1, 3), np.float32), 0, 1), [[5, 5, 1]])


def test_an_action_bound_without_effect_or_below_a_lower_bound_is_refused():
    with pytest.raises(EnvError, match=r"action_bound=5.0 has no effect"):
        scale([-1], [1], bound=5.0)
    with pytest.raises(EnvError, match=r"leaves dimension 0 empty: \[10.0, 5.0\]"):
        scale([10], [np.inf], bound=5.0)


def test_gymnasium_still_orders_dict_keys_as_documented():
    parts = {"b": Discrete(2), "a": Discrete(2)}

    assert list(gym.spaces.Dict(parts)) == ["a", "b"]
    assert list(gym.spaces.Dict(OrderedDict(parts))) == ["b", "a"]


def test_bounds_that_are_the_wrong_way_round_are_refused():
    space = Box(-1, 1, (3,))
    space.low[1], space.high[1] = 2, 1  # Box itself looks only when it is made

    with pytest.raises(EnvError, match=r"action dimension 1 is \[2\.0, 1\.0\]: its lower bound is the higher one"):
        ActionScale("E-v0", space)

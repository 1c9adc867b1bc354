"""Observations as the env gives them, actions in its units."""

import numpy as np
import pytest
from model_samples import Joint, small

from unilab import TD3
from unilab.errors import ConfigError, EnvError, NonFinite


def observation(n=None):
    lead = () if n is None else (n,)
    return {"angle": np.zeros((*lead, 2, 2)), "speed": np.ones((*lead, 1))}


@pytest.fixture
def joint(tmp_path):
    return small(tmp_path, Joint)


def test_one_observation_gives_one_action_of_the_env_s_shape_and_a_state_of_none(joint):
    action, state = joint.predict(observation(), deterministic=True)

    assert state is None
    assert action.shape == (1, 2)
    assert action.dtype == np.float32
    assert action in Joint.action_space


def test_a_batch_gives_the_same_actions_as_its_rows(joint):
    one, _ = joint.predict(observation(), deterministic=True)
    batch, _ = joint.predict(observation(3), deterministic=True)

    assert batch.shape == (3, 1, 2)
    np.testing.assert_allclose(batch, np.stack([one] * 3), rtol=1e-5)


def test_actions_are_the_policy_s_scaled_to_the_bounds(joint):
    normal = joint._acting.policy.act({"obs": np.array([[0, 0, 0, 0, 1]], np.float32)})[0]
    action, _ = joint.predict(observation(), deterministic=True)

    # [-1, 3] and [0, 10]: middle 1 and 5, half widths 2 and 5.
    np.testing.assert_allclose(action[0], [1 + 2 * normal[0], 5 + 5 * normal[1]], rtol=1e-5)


@pytest.mark.parametrize("model", [None, TD3])
def test_without_deterministic_it_explores(tmp_path, model):
    made = small(tmp_path, Joint, **({"model": model} if model else {}))
    first, again = (made.predict(observation())[0] for _ in range(2))

    assert (first != again).all()


def test_keys_that_only_the_critics_see_may_be_missing(tmp_path):
    model = small(tmp_path, Joint, critic_keys=["speed"])
    action, _ = model.predict({"angle": np.zeros((2, 2))}, deterministic=True)

    assert action.shape == (1, 2)


@pytest.mark.parametrize(
    ("obs", "said"),
    [
        ({"angle": np.zeros(3), "speed": np.ones(1)}, r"'angle' has shape \(3,\); it must be \(2, 2\), or n of them"),
        ({"angel": np.zeros((2, 2)), "speed": np.ones(1)}, "no key 'angle'; did you mean 'angel'"),
        ({"angle": np.zeros((2, 2)), "speed": np.ones((4, 1))}, "different batch shapes"),
        (np.zeros(5), "ndarray, the env's is a Dict"),
    ],
)
def test_an_observation_that_is_not_the_env_s_is_refused(joint, obs, said):
    with pytest.raises(EnvError, match=said):
        joint.predict(obs)


def test_a_nan_is_named_with_its_place(joint):
    with pytest.raises(NonFinite, match=r"observation\[4\]"):
        joint.predict(observation() | {"speed": np.array([np.nan])})


def test_a_state_would_have_no_effect(joint):
    with pytest.raises(ConfigError, match="no effect"):
        joint.predict(observation(), state=3)


def test_observations_are_normalised_as_in_training(tmp_path):
    model = small(tmp_path, norm_obs=True).learn(100)
    norm = model._acting.policy.module.norm
    moved = {name: value for name, value in norm.state_dict().items() if value.numel() == 3}

    assert moved, "a mean and a spread for each of three columns"
    assert any(float(value.abs().max()) > 10 for value in moved.values()), "ticks are in the hundreds"
    near, _ = model.predict(np.array([0.0, 1.0, 2.0]), deterministic=True)
    far, _ = model.predict(np.array([0.0, 9e3, 2.0]), deterministic=True)
    assert near != far


def test_no_observation_gives_no_action(joint):
    assert joint.predict(observation(0))[0].shape == (0, 1, 2)


def test_what_reset_returns_as_a_whole_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(EnvError, match=r"no array.*env\.reset\(\)"):
        small(tmp_path, "Pendulum-v1").predict((np.zeros(3), {}))


@pytest.mark.parametrize("flags", [[True], [True, False, True], [[True, False]]])
def test_there_is_one_flag_an_env(joint, flags):
    with pytest.raises(ConfigError, match=r"episode_start has shape .*must be \(2,\)"):
        joint.predict(observation(2), episode_start=flags)

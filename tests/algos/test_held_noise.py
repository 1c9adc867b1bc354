import numpy as np
import pytest
import torch
from toy_learners import policy

from unilab.algos.held_noise import hold_probabilities

ENVS = 500
OBS = {"obs": np.zeros((ENVS, 3), np.float32)}
RUNNING, OVER = np.zeros(ENVS, np.bool_), np.ones(ENVS, np.bool_)


def test_lengths_fall_with_their_square_worked_by_hand():
    torch.testing.assert_close(hold_probabilities(3), torch.tensor([36.0, 9.0, 4.0]) / 49.0)
    assert hold_probabilities(1).tolist() == [1.0]


def actions(made, steps, ended=RUNNING):
    return np.stack([made.explore(OBS, ended) for _ in range(steps)])


def test_noise_is_held_for_as_many_steps_as_the_probabilities_say():
    same = (np.diff(actions(policy("flashsac", noise_steps=3), 600), axis=0) == 0).all(-1)  # [steps - 1, envs]

    # A mean length of (36 + 18 + 12) / 49 = 66 / 49: noise changes in 49 of 66 steps.
    assert 1.0 - same.mean() == pytest.approx(49 / 66, abs=0.01)
    assert not (same[:-1] & same[1:] & np.roll(same, -2, 0)[:-1])[:-2].any()  # never four alike
    assert (same[:-1] & same[1:]).any()


def test_an_episode_begins_with_noise_of_its_own():
    made = policy("flashsac", noise_steps=16)
    first = made.explore(OBS, RUNNING)
    held = (made.explore(OBS, RUNNING) == first).all(-1)
    assert 0 < held.sum() < ENVS

    made = policy("flashsac", noise_steps=16)
    first = made.explore(OBS, RUNNING)
    assert not (made.explore(OBS, OVER) == first).all(-1).any()


def test_one_envs_end_leaves_the_others_noise_alone():
    one, other = policy("flashsac"), policy("flashsac")
    ended = RUNNING.copy()
    ended[7] = True
    before = [made.explore(OBS, RUNNING) for made in (one, other)]
    np.testing.assert_array_equal(*before)

    a, b = one.explore(OBS, ended), other.explore(OBS, RUNNING)

    np.testing.assert_array_equal(np.delete(a, 7, 0), np.delete(b, 7, 0))


def test_what_is_held_goes_on_after_a_reload():
    made, other = policy("flashsac", noise_steps=16), policy("flashsac", noise_steps=16, index=3)
    actions(made, 3)
    other.load_explore_state(made.explore_state())

    np.testing.assert_array_equal(actions(other, 20), actions(made, 20))


def test_one_step_is_fresh_noise_at_each():
    assert not (np.diff(actions(policy("flashsac", noise_steps=1), 20), axis=0) == 0).all(-1).any()

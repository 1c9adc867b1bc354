"""Minibatches are views of a batch, column by column; each row belongs to one of them."""

import dataclasses

import numpy as np
import pytest
import torch

from unilab.replay import Packed, RowLayout
from unilab.transfer import Batch

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
CRITIC = RowLayout(obs_dim=2, action_dim=1, critic_dim=3)


def batch_of(layout, count):
    """Row i holds 100 * column + i; the flags cycle through their four combinations."""
    rows = (100.0 * np.arange(layout.width) + np.arange(count)[:, None]).astype(np.float32)
    rows[:, layout.columns["terminated"].start] = np.arange(count) % 2
    rows[:, layout.columns["truncated"].start] = np.arange(count) // 2 % 2
    return Batch(torch.from_numpy(rows), layout, Packed(7, count, 1000, np.full(2, 5)), slot=1)


def test_each_column_is_where_the_layout_says():
    (minibatch,) = batch_of(LAYOUT, 4).split(4)

    assert minibatch.obs.tolist() == [[0, 100], [1, 101], [2, 102], [3, 103]]
    assert minibatch.action.tolist() == [[200], [201], [202], [203]]
    assert minibatch.reward.tolist() == [300, 301, 302, 303]
    assert minibatch.next_obs.tolist() == [[400, 500], [401, 501], [402, 502], [403, 503]]


def test_flags_are_vectors_and_stay_apart():
    (minibatch,) = batch_of(LAYOUT, 4).split(4)

    assert minibatch.terminated.tolist() == [0, 1, 0, 1]
    assert minibatch.truncated.tolist() == [0, 0, 1, 1]


def test_critic_columns_are_the_privileged_group():
    (minibatch,) = batch_of(CRITIC, 1).split(1)

    assert minibatch.critic_obs.tolist() == [[800, 900, 1000]]
    assert minibatch.next_critic_obs.tolist() == [[1100, 1200, 1300]]


def test_steps_come_along_where_a_row_has_them():
    (minibatch,) = batch_of(RowLayout(obs_dim=2, action_dim=1, critic_dim=3, n_step=3), 2).split(2)

    assert minibatch.next_critic_obs.tolist() == [[1100, 1200, 1300], [1101, 1201, 1301]]
    assert minibatch.steps.tolist() == [1400, 1401]
    assert next(batch_of(CRITIC, 1).split(1)).steps is None


def test_without_a_critic_group_its_columns_are_the_same_tensors():
    (minibatch,) = batch_of(LAYOUT, 2).split(2)

    assert minibatch.critic_obs is minibatch.obs
    assert minibatch.next_critic_obs is minibatch.next_obs


def test_each_update_gets_rows_of_its_own_in_order():
    batch = batch_of(LAYOUT, 12)

    assert [m.obs[:, 0].tolist() for m in batch.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_minibatches_are_views_and_copy_nothing():
    batch = batch_of(LAYOUT, 4)
    minibatches = list(batch.split(2))
    batch.rows[:] = -1.0

    for minibatch in minibatches:
        for column in (minibatch.obs, minibatch.action, minibatch.reward, minibatch.next_obs):
            assert (column == -1).all()


def test_a_batch_without_rows_has_no_minibatch():
    assert list(batch_of(LAYOUT, 0).split(4)) == []


def test_a_batch_knows_its_tick():
    assert batch_of(LAYOUT, 4).tick == 7


def weighted_batch(count, weights):
    return dataclasses.replace(batch_of(LAYOUT, count), weights=weights)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_weights_go_with_the_rows_that_they_are_of(kind):
    batch = weighted_batch(6, kind(np.arange(6, dtype=np.float32)))

    for minibatch in batch.split(2):
        assert minibatch.weights.tolist() == minibatch.obs[:, 0].tolist()
        assert minibatch.weights.dtype == torch.float32


def test_without_weights_minibatches_have_none_and_are_made_once():
    batch = batch_of(LAYOUT, 4)

    first, again = list(batch.split(2)), list(batch.split(2))
    assert all(one is other for one, other in zip(first, again, strict=True))
    assert first[0].weights is None


def test_weights_are_of_their_tick_though_columns_are_shared_with_the_next():
    batch = weighted_batch(4, np.ones(4, np.float32))
    later = dataclasses.replace(batch, weights=np.full(4, 2.0, np.float32))

    (first,), (second,) = batch.split(4), later.split(4)
    assert first.obs is second.obs
    assert (first.weights.tolist(), second.weights.tolist()) == ([1.0] * 4, [2.0] * 4)


def test_weights_that_are_not_one_a_row_are_refused():
    with pytest.raises(ValueError, match=r"weights of shape \(3,\) for 4 rows"):
        weighted_batch(4, np.ones(3, np.float32))

"""Half of the rows in the mirror, worked out by hand."""

import dataclasses

import pytest
import torch
from toy_learners import ALGOS, env_spec, learner, minibatch, same_state

from unilab.algos.symmetry import HalfMirrored, unchanged
from unilab.mirror import Mirror, SignedPermutation, in_place

CPU = torch.device("cpu")
MIRROR = Mirror(obs=SignedPermutation((1, 0, 2), (1, 1, -1)), action=SignedPermutation((1, 0), (-1, -1)))


def rows_of(columns):
    return torch.tensor(columns, dtype=torch.float32)


def test_the_latter_half_is_mirrored_and_the_former_is_not():
    batch = dataclasses.replace(
        minibatch(rows=2),
        obs=rows_of([[1, 2, 3], [4, 5, 6]]),
        action=rows_of([[0.1, 0.2], [0.3, 0.4]]),
        next_obs=rows_of([[7, 8, 9], [10, 11, 12]]),
        steps=rows_of([1, 2]),
    )
    batch = dataclasses.replace(batch, critic_obs=batch.obs, next_critic_obs=batch.next_obs)
    seen = HalfMirrored(MIRROR, CPU)(batch)

    assert seen.obs.tolist() == [[1, 2, 3], [5, 4, -6]]
    assert seen.next_obs.tolist() == [[7, 8, 9], [11, 10, -12]]
    torch.testing.assert_close(seen.action, rows_of([[0.1, 0.2], [-0.4, -0.3]]))
    assert seen.critic_obs is seen.obs
    assert seen.next_critic_obs is seen.next_obs
    for name in ("reward", "terminated", "truncated", "steps"):
        assert getattr(seen, name) is getattr(batch, name)
    assert batch.obs.tolist() == [[1, 2, 3], [4, 5, 6]], "what was stored stays"


def test_a_critic_group_has_a_map_of_its_own():
    batch = minibatch(rows=3, env=env_spec(critic_dim=4))
    seen = HalfMirrored(dataclasses.replace(MIRROR, critic=in_place(1, -1, 1, -1)), CPU)(batch)
    signs = rows_of([[1, 1, 1, 1], [1, -1, 1, -1], [1, -1, 1, -1]])  # the row in the middle too

    assert torch.equal(seen.critic_obs, batch.critic_obs * signs)
    assert torch.equal(seen.next_critic_obs, batch.next_critic_obs * signs)


def test_mirrored_twice_a_batch_is_as_it_was():
    batch, half = minibatch(rows=8), HalfMirrored(MIRROR, CPU)
    again = half(half(batch))

    for name in ("obs", "action", "next_obs", "critic_obs", "next_critic_obs"):
        assert torch.equal(getattr(again, name), getattr(batch, name))
    assert unchanged(batch) is batch


@pytest.mark.parametrize("algo", ALGOS)
def test_an_update_on_a_mirrored_batch_is_the_update_on_its_columns(algo):
    batch, half = minibatch(rows=8), HalfMirrored(MIRROR, CPU)
    one, same, other = learner(algo), learner(algo), learner(algo)
    one.update(half(batch))
    same.update(half(minibatch(rows=8)))
    other.update(batch)

    assert same_state(one.state_dict(), same.state_dict())
    assert not same_state(one.state_dict(), other.state_dict())

"""Rewards are scaled by what returns have been, whatever order the news came in."""

import numpy as np
import pytest
import torch

from unilab.nets.reward_scale import BOUND, NoRewardScale, RewardScale
from unilab.spec import ReturnStats


def stats_of(x) -> ReturnStats:
    x = np.asarray(x, np.float64)
    return ReturnStats(len(x), x.mean(), ((x - x.mean()) ** 2).sum(), np.abs(x).max()) if len(x) else ReturnStats()


def fed(*chunks) -> RewardScale:
    scale = RewardScale()
    for chunk in chunks:
        scale.update(stats_of(chunk))
    return scale


def test_a_wide_spread_is_brought_to_a_standard_deviation_of_one():
    scale = fed([-2.0, 2.0], [-2.0, 2.0])

    assert scale(torch.tensor([3.0, -1.0])).tolist() == [1.5, -0.5]
    assert scale.in_env_units(torch.tensor(1.5)).item() == 3.0


def test_returns_far_from_their_mean_stay_within_the_bound():
    # The deviation is 1, but the largest return of 100 would be 100 of them.
    scale = fed([99.0, 97.0, 100.0, 98.0])

    assert scale(torch.tensor(100.0)).item() == pytest.approx(BOUND)


def test_chunks_merge_to_what_all_at_once_would_give():
    g = np.random.default_rng(0)
    # Far from 0, where a sum of squares in float32 would have nothing left of the deviation.
    x = 1e4 + g.normal(size=1000)
    cuts = np.split(x, [1, 2, 500, 500, 903])

    whole, parts = fed(x), fed(*cuts)

    assert parts.count.item() == 1000
    assert parts.mean.item() == pytest.approx(x.mean(), rel=1e-14)
    assert parts.m2.item() == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-9)
    assert parts.peak.item() == np.abs(x).max()
    assert parts.scale.item() == pytest.approx(whole.scale.item(), rel=1e-7)
    assert parts.m2.dtype == torch.float64


@pytest.mark.parametrize("chunks", [[], [[]], [[0.0, 0.0]]])
def test_before_there_is_a_reward_nothing_is_scaled(chunks):
    assert fed(*chunks)(torch.tensor([2.0])).tolist() == [2.0]


def test_statistics_change_in_place():
    scale = RewardScale()
    places = {name: tensor.data_ptr() for name, tensor in scale.state_dict().items()}

    scale.update(stats_of([1.0, 2.0]))

    assert {name: tensor.data_ptr() for name, tensor in scale.state_dict().items()} == places


def test_what_is_logged_is_a_copy():
    scale = fed([-2.0, 2.0])
    logged = scale.scalars()["reward_scale"]

    scale.update(stats_of([100.0]))

    assert logged.item() == 0.5


def test_the_identity_has_no_state_and_does_nothing():
    scale, reward = NoRewardScale(), torch.ones(2)
    scale.update(stats_of([9.0]))

    assert scale(reward) is reward
    assert scale.in_env_units(reward) is reward
    assert scale.state_dict() == {}
    assert scale.scalars() == {}

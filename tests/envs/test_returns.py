"""Discounted returns belong to one episode, however it ends."""

import numpy as np
import pytest

from unilab.envs.returns import DiscountedReturns, NoReturns
from unilab.spec import ReturnStats

NOBODY = np.zeros(2, np.bool_)


def stats_of(values) -> ReturnStats:
    x = np.array(values, np.float64)
    return ReturnStats(len(x), x.mean(), ((x - x.mean()) ** 2).sum(), np.abs(x).max())


def equal(one: ReturnStats, other: ReturnStats) -> bool:
    return one.count == other.count and (one.mean, one.m2, one.peak) == pytest.approx(
        (other.mean, other.m2, other.peak), rel=1e-12
    )


def rewards(*values):
    return np.array(values, np.float32)


def test_an_episodes_last_reward_is_its_own_and_the_next_one_starts_from_nothing():
    returns = DiscountedReturns(1, gamma=0.5)
    ends = [False, False, True, False]
    for reward, end in zip([1.0, 1.0, 8.0, 1.0], ends, strict=True):
        returns.add(rewards(reward), np.array([end]))

    # 1, 1 + 0.5, 8 + 0.75, and then 1 again: not 1 + 0.5 * 8.
    assert equal(returns.take(), stats_of([1.0, 1.5, 8.75, 1.0]))


def test_they_agree_with_sums_over_each_episodes_past():
    g = np.random.default_rng(0)
    reward, ended = g.normal(size=(200, 3)).astype(np.float32), g.random((200, 3)) < 0.1
    returns, expected = DiscountedReturns(3, gamma=0.97), []
    for t in range(200):
        returns.add(reward[t], ended[t])
        for i in range(3):
            first = max([s + 1 for s in range(t) if ended[s, i]], default=0)
            expected.append(sum(0.97 ** (t - s) * float(reward[s, i]) for s in range(first, t + 1)))

    assert equal(returns.take(), stats_of(expected))


def test_a_step_is_taken_once():
    returns = DiscountedReturns(2, gamma=1.0)
    returns.add(rewards(1.0, 3.0), NOBODY)
    assert equal(returns.take(), stats_of([1.0, 3.0]))
    assert returns.take() == ReturnStats()

    returns.add(rewards(1.0, 0.0), NOBODY)
    assert equal(returns.take(), stats_of([2.0, 3.0]))


def test_a_skipped_step_counts_nowhere_and_its_episode_is_over():
    returns = DiscountedReturns(2, gamma=1.0)
    returns.add(rewards(5.0, 1.0), NOBODY)
    skipped = np.array([True, False])
    returns.add(rewards(0.0, 1.0), skipped, skipped)
    returns.add(rewards(7.0, 1.0), NOBODY)

    assert equal(returns.take(), stats_of([5.0, 1.0, 2.0, 7.0, 3.0]))


def test_who_continues_goes_on_with_the_running_episodes():
    one, other = DiscountedReturns(2, gamma=0.9), DiscountedReturns(2, gamma=0.9)
    one.add(rewards(1.0, 2.0), NOBODY)
    other.load_state_dict(one.state_dict())
    one.take()

    for each in (one, other):
        each.add(rewards(1.0, 1.0), NOBODY)

    assert one.take() == other.take()


def test_without_a_use_for_them_there_are_none():
    returns = NoReturns()
    returns.add(rewards(1.0, 2.0), NOBODY)

    assert returns.take() == ReturnStats()
    assert returns.state_dict() == {}

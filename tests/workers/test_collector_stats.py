"""What a collector reports is taken once, in order, and by chunk, whenever it arrived."""

import numpy as np
import pytest

from unilab.errors import BlockFreed
from unilab.spec import ReturnStats
from unilab.workers.stats import SPANS, CollectorStats, Reports, mean_seconds


@pytest.fixture
def stats():
    stats = CollectorStats(max_episodes=5, episode_columns=2)
    yield stats
    stats.free()


def episodes(*numbers):
    """Episode e is [e, 10 e]."""
    return np.array([[number, 10.0 * number] for number in numbers])


def taken(stats, chunk):
    return stats.take_episodes(chunk)[:, 0].tolist()


def test_nothing_reported_is_nothing_taken(stats):
    rows = stats.take_episodes(7)

    assert rows.shape == (0, 2)


def test_episodes_are_taken_once_and_in_order(stats):
    stats.add_episodes(0, episodes(1, 2))
    stats.add_episodes(0, episodes())
    stats.add_episodes(1, episodes(3))

    assert stats.take_episodes(1).tolist() == [[1, 10], [2, 20], [3, 30]]
    assert taken(stats, 1) == []


def test_episodes_of_a_later_chunk_wait_for_their_tick(stats):
    stats.add_episodes(1, episodes(1))
    stats.add_episodes(2, episodes(2, 3))

    assert taken(stats, 0) == []
    assert taken(stats, 1) == [1]
    assert taken(stats, 1) == []
    assert taken(stats, 2) == [2, 3]


def test_the_table_is_used_round_and_round(stats):
    for chunk in range(20):
        stats.add_episodes(chunk, episodes(*range(3 * chunk, 3 * chunk + 3)))
        assert taken(stats, chunk) == [3 * chunk, 3 * chunk + 1, 3 * chunk + 2]


def test_a_full_table_is_taken_whole(stats):
    stats.add_episodes(0, episodes(1, 2, 3))
    assert taken(stats, 0) == [1, 2, 3]
    stats.add_episodes(1, episodes(4, 5, 6, 7, 8))

    assert taken(stats, 1) == [4, 5, 6, 7, 8]


def test_what_was_taken_does_not_change_when_the_table_is_used_again(stats):
    stats.add_episodes(0, episodes(1, 2, 3, 4, 5))
    rows = stats.take_episodes(0)
    stats.add_episodes(1, episodes(6, 7, 8, 9, 10))

    assert rows[:, 0].tolist() == [1, 2, 3, 4, 5]


def test_sums_up_to_a_chunk_are_kept_beside_those_up_to_the_next(stats):
    for chunk in range(10):
        stats.add_round(10.0, 2)
        stats.finish_chunk(chunk, {"act": 1.0, "env_step": 2.0 + chunk % 2}, ReturnStats())
        for known in range(max(0, chunk - 1), chunk + 1):
            totals, seconds = stats.totals(known), stats.totals(known).seconds
            assert (totals.reward, totals.skipped) == (10.0 * (known + 1), 2 * (known + 1))
            assert list(seconds) == list(SPANS)
            # env_step: 2, 3, 2, 3, ...
            assert (seconds["act"], seconds["append"]) == (known + 1, 0.0)
            assert seconds["env_step"] == 2.0 * (known + 1) + (known + 1) // 2


def test_returns_are_those_of_one_chunk_until_others_took_its_place(stats):
    for chunk in range(10):
        stats.finish_chunk(chunk, {}, ReturnStats(chunk, 0.5 * chunk, 2.0 * chunk, 3.0 * chunk))
        for known in range(max(0, chunk - 1), chunk + 1):
            assert stats.returns(known) == ReturnStats(known, 0.5 * known, 2.0 * known, 3.0 * known)


def test_rewards_of_the_chunk_that_is_coming_in_are_not_in_the_sum_of_the_last(stats):
    stats.add_round(1.0, 0)
    stats.finish_chunk(0, {}, ReturnStats())
    stats.add_round(100.0, 0)

    assert stats.totals(0).reward == 1.0
    assert stats.reward_sum == 101.0


def test_rewards_add_up_in_float64(stats):
    stats.add_round(2.0**53, 0)
    stats.add_round(-(2.0**53), 0)
    for _ in range(10):
        stats.add_round(0.5, 0)

    assert stats.reward_sum == 5.0


def test_both_sides_see_the_same_memory(stats):
    learner = CollectorStats.__new__(CollectorStats)
    learner.__setstate__(stats.__getstate__())
    stats.add_episodes(3, episodes(1))
    stats.add_round(1.5, 0)

    assert learner.take_episodes(3).tolist() == [[1, 10]]
    assert learner.reward_sum == 1.5
    assert taken(stats, 3) == [1]  # each side knows for itself what it has taken


def test_a_chunk_that_is_thrown_away_leaves_nothing_but_its_count(stats):
    stats.add_round(1.0, 0)
    stats.add_episodes(0, episodes(1))
    stats.finish_chunk(0, {}, ReturnStats())
    for _ in range(50):  # more episodes than the table holds
        stats.add_round(100.0, 2)
        stats.add_episodes(1, episodes(7, 8))
        stats.drop_chunk(1, rows=4)
    stats.add_round(2.0, 0)
    stats.add_episodes(1, episodes(9))
    stats.finish_chunk(1, {}, ReturnStats(), lags=(1, 3))

    assert taken(stats, 1) == [1, 9]
    assert (stats.totals(1).reward, stats.totals(1).skipped, stats.dropped) == (3.0, 0, 200)
    assert (stats.lags(0), stats.lags(1)) == ((0, 0), (1, 3))


def test_all_collectors_report_as_one(stats):
    other = CollectorStats(max_episodes=5, episode_columns=2)
    reports = Reports([stats, other])
    for chunk in range(3):
        stats.add_round(1.0, 0)
        stats.add_episodes(chunk, episodes(chunk))
        stats.finish_chunk(chunk, {"act": 1.0}, ReturnStats(count=1, mean=float(chunk)), lags=(0, chunk))
    other.add_round(10.0, 1)
    other.add_episodes(0, episodes(50))
    other.finish_chunk(0, {"act": 3.0}, ReturnStats(count=9), lags=(5, 5))

    assert reports.take_episodes((1, 0))[:, 0].tolist() == [0, 1, 50]
    assert [part.reward for part in reports.totals((1, 0))] == [2.0, 10.0]
    assert [r.mean for r in reports.returns((0, 0), (2, 0))] == [1.0, 2.0]
    assert list(reports.lags((-1, -1), (1, 0))) == [(0, 0), (0, 1), (5, 5)]
    assert (reports.reward_sum, reports.skipped) == (13.0, 1)
    assert mean_seconds(reports.totals((1, 0)))["act"] == 2.5
    assert reports.take_episodes((2, 0))[:, 0].tolist() == [2]
    other.free()


def test_bytes_by_hand():
    # cursor, dropped: 8 -> 64 each; sums: 16 -> 64; 4 chunks x (2 + 6) x 8 = 256; 4 chunks x 4 x 8 = 128;
    # 4 chunks x 2 x 8 = 64; 5 episodes x (1 + 2) x 8 = 120 -> 128
    assert CollectorStats.required_bytes(5, 2) == 64 + 64 + 64 + 256 + 128 + 64 + 128


def test_freed_statistics_say_so(stats):
    stats.free()

    with pytest.raises(BlockFreed, match="collector stats"):
        stats.take_episodes(0)


# ------------------------------------------------------------ continuing


def test_a_state_holds_what_was_not_taken_and_ended_by_its_chunk():
    stats, other = CollectorStats(5, 2), CollectorStats(5, 2)
    for chunk in (1, 2, 3):
        stats.add_round(10.0 * chunk, chunk)
        stats.add_episodes(chunk, np.array([[chunk, 10.0 * chunk]]))
        stats.finish_chunk(chunk, {"act": 0.5}, ReturnStats(chunk, 0.5, 2.0, 3.0))
    assert stats.take_episodes(1).tolist() == [[1, 10]]
    other.load_state_dict(stats.state_dict(2))

    assert other.reward_sum == 10 + 20
    assert (other.totals(2).reward, other.totals(2).skipped) == (30, 3)
    assert other.returns(2) == ReturnStats(2, 0.5, 2.0, 3.0)
    assert other.take_episodes(9).tolist() == [[2, 20]]
    assert stats.take_episodes(9).tolist() == [[2, 20], [3, 30]]  # a state is a copy
    stats.free()
    other.free()


def test_rewound_statistics_forget_an_unfinished_chunk():
    stats = CollectorStats(5, 2)
    stats.add_round(10.0, 0)
    stats.add_episodes(1, np.array([[1.0, 10.0]]))
    stats.finish_chunk(1, {}, ReturnStats())
    stats.add_round(99.0, 7)
    stats.add_episodes(2, np.array([[2.0, 20.0], [2.0, 21.0]]))
    stats.rewind(1)

    assert (stats.reward_sum, stats.skipped) == (10, 0)
    assert stats.take_episodes(9).tolist() == [[1, 10]]
    stats.rewind(1)
    assert stats.take_episodes(9).tolist() == []
    stats.free()


def test_how_old_the_weights_of_a_chunk_were_is_known_after_going_on(stats):
    stats.finish_chunk(2, {}, ReturnStats(), (3, 4))
    other = CollectorStats(max_episodes=5, episode_columns=2)
    other.load_state_dict(stats.state_dict(2))

    assert other.lags(2) == (3, 4)
    other.free()

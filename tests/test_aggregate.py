"""Hand-worked numbers: what several seeds say together."""

import numpy as np

from unilab.aggregate import interquartile_mean, interval, mean


def test_the_interquartile_mean_leaves_a_quarter_out_at_each_end_rounded_down():
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0, -100.0])) == 2.0
    assert interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0])) == 3.5
    assert interquartile_mean(np.array([0.0, 3.0, 9.0])) == 4.0


def test_a_column_is_a_point_of_its_own():
    scores = np.array([[0.0, 8.0], [1.0, 7.0], [2.0, 6.0], [50.0, -50.0]])

    assert interquartile_mean(scores).tolist() == [1.5, 6.5]


def test_the_interval_of_two_seeds_reaches_from_one_to_the_other():
    """Two draws of two are both the lower one a quarter of the time: more than the 2.5 % left out."""
    low, high = interval(np.array([[3.0], [5.0]]), mean)

    assert (low.tolist(), high.tolist()) == ([3.0], [5.0])


def test_the_interval_of_many_seeds_is_two_standard_errors_to_each_side():
    scores = np.random.default_rng(1).normal(10, 2, 400)

    low, high = interval(scores, mean)

    error = scores.std() / 20
    assert abs(low - (scores.mean() - 1.96 * error)) < 0.1 * error
    assert abs(high - (scores.mean() + 1.96 * error)) < 0.1 * error


def test_the_same_scores_give_the_same_interval_and_one_seed_gives_none():
    scores = np.array([1.0, 5.0, 2.0, 8.0])

    assert interval(scores, interquartile_mean) == interval(scores, interquartile_mean)
    assert interval(np.array([1.0]), mean) is None

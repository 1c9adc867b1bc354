"""Lags are counted exactly: what is drained is what came since the last time, worked out by hand."""

import pytest

from unilab.telemetry.lags import Lags, quantile


def test_launch_and_arrival_have_median_tail_and_maximum():
    lags = Lags()
    lags.add([(0, 1), (0, 2), (1, 2), (0, 9)])
    scalars, histograms = lags.drain()

    assert scalars == {
        "lag/at_launch_p50": 0, "lag/at_launch_p95": 1, "lag/at_launch_max": 1,
        "lag/at_arrival_p50": 2, "lag/at_arrival_p95": 9, "lag/at_arrival_max": 9,
    }  # fmt: skip
    assert histograms == {"lag/at_launch_histogram": {0: 3, 1: 1}, "lag/at_arrival_histogram": {1: 1, 2: 2, 9: 1}}


def test_what_was_drained_is_not_told_again():
    lags = Lags(bound=0)
    lags.add([(0, 5)])
    lags.drain()

    assert lags.drain() == ({}, {})


def test_arrivals_above_the_bound_are_counted_where_there_is_one():
    lags = Lags(bound=2)
    lags.add([(3, 2), (3, 3), (0, 7)])
    assert lags.drain()[0]["lag/over_bound"] == 2
    lags.add([(3, 2)])
    assert lags.drain()[0]["lag/over_bound"] == 0
    lags.add_ages([9])
    assert "lag/over_bound" not in lags.drain()[0]


def test_ages_of_rows_are_a_histogram_alone():
    lags = Lags()
    lags.add_ages([4, 0, 4])

    assert lags.drain() == ({}, {"lag/row_age_histogram": {4: 2, 0: 1}})


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.25, 1), (0.26, 3), (0.5, 3), (0.75, 3), (0.76, 8), (1.0, 8)])
def test_a_quantile_is_the_smallest_value_that_the_share_does_not_exceed(share, value):
    assert quantile({8: 1, 3: 2, 1: 1}, share) == value


def test_nothing_has_no_quantile():
    with pytest.raises(ValueError, match="nothing was seen"):
        quantile({}, 0.5)

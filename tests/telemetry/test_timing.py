"""The last lines of a run."""

from dataclasses import replace

import numpy as np
import pytest

from unilab.telemetry.timing import TickStats, TickTimes, Timing, advice, shares, timing_lines


def test_quantiles_are_within_a_percent_and_the_mean_is_exact():
    times = np.random.default_rng(0).lognormal(-5, 1, 5000)
    now = [100.0]
    ticks = TickTimes(lambda: now[0])
    now[0] = 200.0
    ticks.start()
    for seconds in times:
        now[0] += seconds
        ticks.tick()
    stats = ticks.stats()

    assert stats.n == 5000
    assert stats.mean == pytest.approx(times.mean(), rel=1e-9)
    assert (stats.median, stats.p90, stats.p99) == pytest.approx(np.percentile(times, [50, 90, 99]), rel=0.012)
    assert ticks.seconds == pytest.approx(times.sum())


def test_a_new_start_forgets_what_was_counted():
    now = [0.0]
    ticks = TickTimes(lambda: now[0])
    for seconds in (40.0, 1.0):
        now[0] += seconds
        ticks.tick()
        if seconds == 40.0:
            ticks.start()

    assert ticks.stats().n == 1
    assert ticks.stats().mean == ticks.seconds == 1.0


def test_no_tick_has_no_statistics():
    assert TickTimes().stats() is None


def test_shares_add_up_to_one_and_leave_out_what_took_no_time():
    assert shares({"update": 6.0, "save": 0.0}, 8.0) == {"update": 0.75, "other": 0.25}


def timing(learner, collector, **changes):
    split = {"learner": learner, "collector-0": collector}
    return Timing(TickStats(1000, 0.012, 0.011, 0.02, 2.5), 640.0, 320.0, split, **changes)


def test_the_lines_are_ticks_then_each_process_then_advice():
    assert timing_lines(timing({"update": 0.8, "other": 0.2}, {"wait_grant": 0.5, "act": 0.3, "other": 0.2}))[:3] == [
        "timing       1,000 ticks of 12 ms (median 11, p90 20, p99 2.5e+03): 640 env steps/s, 320 updates/s",
        "learner      update 80.0 %, other 20.0 %",
        "collector-0  wait_grant 50.0 %, act 30.0 %, other 20.0 %",
    ]


@pytest.mark.parametrize(
    ("learner", "collector", "said"),
    [
        ({"update": 0.9, "wait_batch": 0.01}, {"wait_grant": 0.6, "act": 0.4}, "learner-bound: updates take 90%"),
        (
            {"update": 0.4, "wait_batch": 0.5},
            {"wait_grant": 0.02, "act": 0.2, "env_step": 0.7},
            "mostly for env_step (70%",
        ),
        ({"update": 0.5, "wait_batch": 0.3}, {"wait_grant": 0.3, "act": 0.5}, "hand-overs or free cores"),
        ({"update": 0.95, "wait_batch": 0.01}, {"wait_grant": 0.01, "act": 0.9}, "balanced"),
        (
            {"update": 0.2, "wait_batch": 0.01, "save": 0.7},
            {"wait_grant": 0.7, "act": 0.2},
            "bound by save of the learner",
        ),
    ],
)
def test_the_advice_names_what_bounds_the_speed(learner, collector, said):
    assert said in advice(timing(learner, collector))


def test_a_serial_run_is_told_that_nothing_overlaps():
    assert advice(timing({"update": 0.5}, {"act": 0.5}, serial=True)).startswith("serial:")


def test_several_collectors_count_by_their_mean_and_uneven_ones_are_told_of_free_running():
    split = {
        "learner": {"update": 0.4, "wait_batch": 0.5},
        "collector-0": {"wait_grant": 0.8, "env_step": 0.1},
        "collector-1": {"wait_grant": 0.0, "env_step": 0.9},
    }
    base = timing(split["learner"], split["collector-0"])

    said = advice(replace(base, split=split))
    assert "the learner waits 50%, collectors 40%" in said
    assert "--pacing free" in said
    assert "--pacing" not in advice(replace(base, split=split, free=True))

"""What a trace says, against numbers worked out on paper."""

import pytest
from hand_made import span, write

from unilab.errors import UnilabError
from unilab.report.critical import critical_path
from unilab.report.intervals import common, length, union
from unilab.report.measure import Spread, measure
from unilab.report.segments import Segment, flatten
from unilab.telemetry.trace_read import SpanRead, read_trace


def approx(shares):
    return pytest.approx(shares, abs=1e-9)


def reported(path):
    return measure(read_trace(path))


def test_the_split_of_each_process_is_what_its_innermost_spans_take_and_adds_up(tmp_path):
    report = reported(write(tmp_path / "trace.json", [1, 2, 3, 4]))

    assert report.timing.split == {
        "learner": approx({"wait_batch": 0.2, "grant": 0.1, "update": 0.6, "publish": 0.1}),
        "collector-0": approx({"pack": 0.2, "wait_grant": 0.1, "act": 0.1, "env_step": 0.6}),
    }
    assert [sum(split.values()) for split in report.timing.split.values()] == pytest.approx([1, 1])


def test_overlap_is_the_share_of_each_part_behind_updates(tmp_path):
    report = reported(write(tmp_path / "trace.json", [1, 2, 3, 4]))

    assert report.hidden == approx({"collect": 6 / 7, "pack": 0})
    assert (report.collect_s, report.update_s) == pytest.approx((7e-3, 6e-3))
    assert report.tick_over_longer == pytest.approx(10 / 7)


def test_the_critical_path_goes_through_whoever_was_waited_for(tmp_path):
    report = reported(write(tmp_path / "trace.json", [1, 2, 3, 4]))

    # Three periods of 10 ms, from the end back: the last one's updates, and before them chunk after chunk.
    assert {name: 30 * share for name, share in report.critical.items()} == approx(
        {
            "learner: publish": 1,
            "learner: update": 6,
            "learner: grant": 3,
            "collector-0: pack": 6,
            "collector-0: env_step": 12,
            "collector-0: act": 2,
        }
    )


def test_speeds_count_ticks_between_the_first_and_the_last_also_those_not_recorded(tmp_path):
    report = reported(write(tmp_path / "trace.json", [1, 2, 3, 11, 12, 13, 20]))

    assert (report.recorded_ticks, report.last_tick) == (6, 20)  # a tick alone has no period
    assert report.timing.ticks.n == 4
    assert report.timing.ticks.p99 == pytest.approx(10e-3)
    assert report.timing.env_steps_per_s == pytest.approx(8 * 19 / 0.19)  # 4 envs x 2 steps in each of 19 ticks
    assert report.timing.updates_per_s == pytest.approx(4 * 19 / 0.19)
    assert sum(report.timing.split["learner"].values()) == pytest.approx(1)


def test_a_wait_that_outlasts_its_cause_is_a_hand_over():
    lanes = {
        "learner": [Segment("update", 0, 4), Segment("wait_batch", 4, 10)],
        "collector": [Segment("env_step", 0, 9), Segment("wait_grant", 9, 10)],
    }
    path = critical_path(
        lanes,
        [(0, 10)],
        {"learner": frozenset({"wait_batch"}), "collector": frozenset({"wait_grant"})},
        {"learner": ["collector"], "collector": ["learner"]},
        "learner",
    )

    assert path == {"hand-over": 1, "collector: env_step": 9}


def test_a_wait_for_nobody_stays_on_the_path():
    lanes = {"learner": [Segment("update", 0, 4), Segment("wait_batch", 4, 10)], "collector": [Segment("act", 0, 2)]}
    path = critical_path(
        lanes, [(0, 10)], {"learner": frozenset({"wait_batch"})}, {"learner": ["collector"]}, "learner"
    )

    assert path == {"learner: wait_batch": 6, "learner: update": 4}


def test_nested_spans_flatten_to_the_innermost_and_gaps_to_other():
    spans = [SpanRead("tick", 1, 9), SpanRead("wait_batch", 1, 4), SpanRead("copy", 2, 3), SpanRead("update", 5, 12)]

    flat = [(s.name, s.start, s.end) for s in flatten(spans, [(0, 2.5), (6, 10)])]

    # The update outlives its tick: it is cut, for a thread cannot be in two spans at once.
    assert flat == [
        ("other", 0, 1),
        ("wait_batch", 1, 2),
        ("copy", 2, 2.5),
        ("update", 6, 9),
        ("other", 9, 10),
    ]


def test_spans_that_touch_do_not_overlap_by_a_rounding_error(tmp_path):
    # In floats 0.1 + 0.2 > 0.3.
    more = [span("learner", "tick", 100, 300, tick=1), span("learner", "tick", 300, 400, tick=2)]
    more += [span("learner", "update", 300, 400), span("learner", "tick", 400, 500, tick=3)]
    path = write(tmp_path / "trace.json", [5], more=more)

    assert reported(path).timing.split["learner"]["update"] == pytest.approx(1 / 3)


def test_intervals_unite_and_intersect():
    a, b = union([(5, 6), (0, 2), (1, 3), (4, 4)]), [(2, 5.5)]

    assert a == [(0, 3), (5, 6)]
    assert common(a, b) == [(2, 3), (5, 5.5)] == common(b, a)
    assert length(common(a, b)) == 1.5


def test_a_copy_beside_the_updates_is_hidden_and_one_on_the_learners_thread_is_not_counted(tmp_path):
    beside = [span("learner", "copy", 13, 15) | {"tid": 7}, span("learner", "copy", 10.5, 11)]

    assert reported(write(tmp_path / "a.json", [1, 2, 3], more=beside)).hidden["copy"] == pytest.approx(1)
    assert "copy" not in reported(write(tmp_path / "b.json", [1, 2, 3], more=beside[1:])).hidden


def test_spans_at_device_time_count_instead_of_those_of_the_host(tmp_path):
    device = [span("learner", "cuda_update", 10 * t + 3, 10 * t + 5) | {"tid": 8} for t in (1, 2, 3)]
    report = reported(write(tmp_path / "trace.json", [1, 2, 3], more=device))

    assert report.update_s == pytest.approx(2e-3)
    assert report.hidden["collect"] == pytest.approx(2 / 7)


def test_lag_and_age_are_means_of_their_counters(tmp_path):
    more = [
        {"ph": "C", "name": "policy lag", "pid": 1, "tid": 1, "ts": ts, "args": {"versions": lag}}
        for ts, lag in ((1, 1), (2, 2), (3, 6))
    ]

    counters = reported(write(tmp_path / "trace.json", [1, 2], more=more)).counters
    assert counters == {"policy lag": Spread(mean=3, p50=2, p95=pytest.approx(5.6), largest=6)}


def test_a_cut_trace_is_read_up_to_the_cut(tmp_path):
    path = write(tmp_path / "trace.json", [1, 2, 3, 4])
    text = path.read_text()
    path.write_text(text[: text.index('"tick": 4')])
    report = reported(path)

    assert not report.whole
    assert report.last_tick == 3
    assert report.timing.ticks.mean == pytest.approx(10e-3)


@pytest.mark.parametrize("text", ["", "[\n", "hello", '[\n{"ph":"i"'])
def test_a_file_without_an_event_is_refused(tmp_path, text):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(UnilabError, match="no trace"):
        read_trace(tmp_path / "trace.json")


def test_a_trace_without_a_tick_is_refused(tmp_path):
    (tmp_path / "trace.json").write_text("[]")
    with pytest.raises(UnilabError, match="no finished tick"):
        reported(tmp_path / "trace.json")

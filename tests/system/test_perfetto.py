"""Perfetto itself shows all that is in a run's trace, and adds up to what the report says."""

import json
from collections import Counter

import pytest

from perfetto import ask, errors
from program import SMALL, Program
from unilab.report.options import report_text

RUN = [*SMALL, "--env", "unilab/Toy-v0", "--num-envs", "4", "--total-steps", "1000", "--trace"]
RUN += ["--eval-every", "500", "--eval-episodes", "2"]

SPANS = """
select process.name, slice.name, count(*) from slice join thread_track on slice.track_id = thread_track.id
join thread using (utid) join process using (upid) where slice.dur > 0 group by process.name, slice.name
"""
ARROWS = """
select a.name, b.name, count(*), min(b.ts - a.ts) >= 0 from flow
join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id group by a.name, b.name
"""
COUNTERS = """
select process.name, track.name, count(*) from counter join process_counter_track track on counter.track_id = track.id
join process using (upid) group by process.name, track.name
"""
INSIDE = """
select slice.name, sum(slice.dur) from slice join slice parent on slice.parent_id = parent.id
where parent.name = 'tick' and slice.ts < (select max(ts) from slice where name = 'tick') group by slice.name
"""
TICKS = "select count(*), max(ts) - min(ts) from slice where name = 'tick'"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    program = Program(tmp_path_factory.mktemp("traced"), RUN)
    assert program.end() == 0, program.text
    return program.log_dir / "latest/trace.json"


def written_events(trace):
    """All events, and the names of their processes by id."""
    events = json.loads(trace.read_text())
    return events, {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


def test_every_span_is_shown_under_its_process(trace):
    events, names = written_events(trace)
    written = Counter((names[e["pid"]], e["name"]) for e in events if e["ph"] == "X" and e["dur"] > 0)
    assert errors(trace) == []
    assert {(process, name): count for process, name, count in ask(trace, SPANS)[0]} == dict(written)
    assert {process for process, _ in written} == {"learner", "collector-0", "evaluator-0"}


def test_arrows_lead_from_pack_to_copy_to_update_and_from_publish_to_fetch(trace):
    arrows = {(a, b): (count, bool(forward)) for a, b, count, forward in ask(trace, ARROWS)[0]}
    ((ticks, _),) = ask(trace, TICKS)[0]
    assert arrows["pack", "copy"] == (ticks, True)
    assert arrows["copy", "update"] == (ticks, True)
    count, forward = arrows["publish", "fetch"]
    assert forward
    assert count >= ticks - 1  # the last tick grants nothing
    assert len(arrows) == 3


def test_every_sample_of_a_counter_is_shown_under_its_process(trace):
    events, names = written_events(trace)
    samples = [e for e in events if e["ph"] == "C"]
    written = Counter((names[e["pid"]], f"{e['name']} {key}") for e in samples for key in e["args"])
    assert {(process, name): count for process, name, count in ask(trace, COUNTERS)[0]} == dict(written)
    gauges = {"ring rows rows", "slots ready slots", "policy lag versions", "row age versions"}
    assert {name for process, name in written if process == "learner"} == gauges | {"rss MiB"}
    assert {process for process, name in written if name == "rss MiB"} == {"learner", "collector-0", "evaluator-0"}


def test_the_report_says_what_perfetto_adds_up(trace):
    report = json.loads(report_text(["--json", str(trace)]))[str(trace)]
    ((ticks, wall_ns),) = ask(trace, TICKS)[0]
    shares = {name: nanoseconds / wall_ns for name, nanoseconds in ask(trace, INSIDE)[0]}
    split = report["timing"]["split"]["learner"]
    split["wait_batch"] += split["copy"]  # which lies in it
    assert report["recorded_ticks"] == ticks
    assert report["timing"]["ticks"]["mean"] == pytest.approx(wall_ns / (ticks - 1) / 1e9, rel=1e-6)
    assert {name: split[name] for name in shares} == pytest.approx(shares, abs=1e-5)
    assert shares["update"] > 0.2


OVERLAPPING = (
    '[{"ph":"X","name":"a","ts":1,"dur":5,"pid":1,"tid":1},{"ph":"X","name":"b","ts":3,"dur":5,"pid":1,"tid":1}'
)


def test_the_judge_finds_what_is_wrong(tmp_path):
    trace = tmp_path / "trace.json"
    trace.write_text(OVERLAPPING)
    assert errors(trace) == [["slice_drop_overlapping_complete_event", 1]]
    trace.write_text("[")
    with pytest.raises(AssertionError, match="Unknown trace type"):
        errors(trace)

"""The trace of whole runs: killed at any moment, and gone on with."""

import json
import os
import random
import signal
import time
from contextlib import suppress

import pytest

from cut_trace import complaints, read_cut
from perfetto import errors
from program import SMALL
from unilab.report.options import report_text

SHORT = [*SMALL, "--env", "unilab/Toy-v0", "--num-envs", "4", "--trace", "--eval-every", "1000", "--eval-episodes", "2"]
STEPS, BYTES = "4000", 1_700_000
"""A run of so many steps has a trace of about so many bytes."""


def kill_all(program):
    """SIGKILL to the program's group, and to its workers, which have groups of their own."""
    family = [program.process.pid, *program.descendants()]
    with suppress(ProcessLookupError):
        os.killpg(program.process.pid, signal.SIGKILL)
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    program.process.wait()


def wait_for_bytes(program, nbytes):
    """Until the trace is there and that long, or the program has ended."""
    trace, end = program.log_dir / "latest/trace.json", time.monotonic() + 120
    while not (trace.exists() and trace.stat().st_size >= nbytes) and program.process.poll() is None:
        assert time.monotonic() < end, program.text
        time.sleep(0.001)


MOMENTS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 3 else []) for seed in range(10)]


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_traced_run_that_is_killed_at_any_moment_leaves_a_trace_that_loads(start, seed):
    moment = random.Random(seed)
    # One of the first three is killed before its first tick, as soon as there is a trace.
    share = 0.0 if seed == 0 else moment.uniform(0, 1.05)
    program = start("--total-steps", STEPS, *SHORT)
    wait_for_bytes(program, share * BYTES)
    time.sleep(0.0 if seed == 0 else moment.uniform(0, 0.3))  # between two writes of a process
    kill_all(program)

    trace = program.log_dir / "latest/trace.json"
    events = read_cut(trace.read_text())
    ticks = sum(e["ph"] == "X" and e["name"] == "tick" for e in events)
    assert complaints(events) == []
    assert errors(trace) == []
    assert (ticks > 10) == (share > 0.05)
    if ticks:
        assert "learner" in report_text([str(trace)])


def ticks_of(path):
    """Ticks whose span is in it; each once."""
    events = strict(path)
    ticks = [e["args"]["tick"] for e in events if e["ph"] == "X" and e["name"] == "tick"]
    assert len(set(ticks)) == len(ticks)
    return events, sorted(ticks)


def strict(path):
    events = json.loads(path.read_text())
    assert complaints(events) == []
    return events


def test_a_run_that_goes_on_keeps_the_trace_of_its_first_part_and_writes_one_that_follows_it(start):
    first = start("--total-steps", "1000", *SHORT)
    assert first.end() == 0, first.text
    run = (first.log_dir / "latest").resolve()
    before = (run / "trace.json").read_bytes()
    second = start("--resume", str(run), "--total-steps", "2000")
    assert second.end() == 0, second.text

    assert (run / "trace_1.json").read_bytes() == before
    events, earlier = ticks_of(run / "trace_1.json")
    more, later = ticks_of(run / "trace.json")
    assert earlier == [*range(1, 226)]  # 100 env steps are prefill
    assert later == [*range(226, 476)]
    names = {"learner", "collector-0", "evaluator-0"}
    for part in (events, more):
        assert {e["args"]["name"] for e in part if e["name"] == "process_name"} == names
    report = report_text([str(run / "trace_1.json"), str(run)])
    assert report.count("\ntiming  ") == 2

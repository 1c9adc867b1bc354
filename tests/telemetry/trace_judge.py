"""Reads traces strictly and judges them as trace viewers do; a clock to work numbers out with."""

import json

from unilab.telemetry.trace import Tracer, TraceSpec
from unilab.telemetry.trace_file import begin_trace, end_trace
from unilab.telemetry.trace_ticks import TickRange


class FakeClock:
    """Nanoseconds that only move when told."""

    def __init__(self, now=0):
        self.now = now

    def __call__(self):
        return self.now

    def pass_ns(self, ns):
        self.now += ns


def traced(run_dir, process="learner", *, clock=None, guest=False, **spec):
    """A tracer into ``run_dir / "trace.json"``, which it makes if it is not there."""
    path = run_dir / "trace.json"
    if not path.exists():
        begin_trace(run_dir)
    spec = {"ticks": TickRange(0, 10**9)} | spec
    options = {} if clock is None else {"clock": clock}
    return Tracer(process, TraceSpec(path=path, **spec), guest=guest, **options)


def strict(text):
    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def complaints(events):
    """The judge's rules: every event named by process and thread, real numbers, no negative duration."""
    found = []
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    for e in events:
        if e["ph"] == "M":
            continue
        if not all(isinstance(e[key], int | float) for key in ("ts", "pid", "tid")) or not 0 <= e["ts"] <= 1e13:
            found.append(f"numbers: {e}")
        if e["ph"] == "X" and e["dur"] < 0:
            found.append(f"dur: {e}")
        if e["pid"] not in processes or (e["pid"], e["tid"]) not in threads:
            found.append(f"unnamed: {e}")
    return found


def ended(run_dir):
    """All events of a trace whose tracers are closed, but for memory samples; judged."""
    events = strict(end_trace(run_dir).read_text())
    assert complaints(events) == []
    return [e for e in events if e["name"] != "rss"]


def named(events, name):
    return [e for e in events if e["name"] == name]

"""Spans: totals by hand on a fake clock, events by the rules of trace viewers, cost by a generous bound."""

import threading
import time

import pytest
from trace_judge import FakeClock, merged, named

from unilab.telemetry.trace import Tracer, merge_trace


def test_totals_add_up_by_name_and_a_take_starts_them_anew():
    clock = FakeClock()
    tracer = Tracer("learner", clock=clock)
    with tracer.span("tick"):
        clock.pass_ns(5)
        for ns in (10, 20):
            with tracer.span("update"):
                clock.pass_ns(ns)

    assert tracer.totals_ns == {"tick": 35, "update": 30}
    assert tracer.take_totals() == {"tick": 35, "update": 30}
    assert tracer.take_totals() == {} == tracer.totals_ns
    with tracer.span("update"):
        clock.pass_ns(7)
    assert tracer.take_totals() == {"update": 7}
    assert tracer.span("update").total_ns == 37  # a take writes nothing that the owning thread writes


def test_a_span_that_raises_still_counts_and_lets_the_error_pass():
    clock = FakeClock()
    tracer = Tracer("learner", clock=clock)

    def update():
        with tracer.span("update"):
            clock.pass_ns(3)
            raise KeyError("x")

    with pytest.raises(KeyError):
        update()
    assert tracer.take_totals() == {"update": 3}


def test_totals_sum_the_same_name_over_threads():
    clock = FakeClock()
    tracer = Tracer("learner", clock=clock)

    def pack():
        with tracer.span("pack"):
            clock.pass_ns(100)

    pack()
    packer = threading.Thread(target=pack)
    packer.start()
    packer.join()

    assert tracer.take_totals() == {"pack": 200}


def test_taking_totals_while_another_thread_adds_loses_nothing():
    tracer = Tracer("learner", clock=iter(range(10**9)).__next__)  # each reading is one later: a span lasts 1 ns
    spans = 20_000

    def work():
        for _ in range(spans):
            with tracer.span("pack"):
                pass

    worker = threading.Thread(target=work)
    worker.start()
    taken = 0
    while worker.is_alive():
        taken += tracer.take_totals().get("pack", 0)
    worker.join()
    taken += tracer.take_totals().get("pack", 0)

    assert taken == spans


def test_spans_are_in_microseconds_since_the_shared_start_and_nest(tmp_path):
    clock = FakeClock(5_000_000)
    tracer = Tracer("learner", run_dir=tmp_path, t0_ns=4_000_000, clock=clock)
    with tracer.span("tick", tick=7):
        clock.pass_ns(1500)
        with tracer.span("update"):
            clock.pass_ns(250)
        clock.pass_ns(250)
    tracer.close()

    events = merged(tmp_path)
    (tick,), (update,) = named(events, "tick"), named(events, "update")
    assert (tick["ts"], tick["dur"], tick["args"]) == (1000.0, 2.0, {"tick": 7})
    assert (update["ts"], update["dur"]) == (1001.5, 0.25)
    assert "args" not in update


def test_counters_and_instants_stand_at_their_time(tmp_path):
    clock = FakeClock()
    tracer = Tracer("learner", run_dir=tmp_path, clock=clock)
    clock.pass_ns(2000)
    tracer.counter("ring", filled=3, lag=float("nan"))
    tracer.counter("ring", filled=float("inf"))
    tracer.instant("checkpoint", path='a "b"[/c]\n\u00e9')
    tracer.close()

    events = merged(tmp_path)
    (ring,), (mark,) = named(events, "ring"), named(events, "checkpoint")
    assert (ring["ph"], ring["ts"], ring["args"]) == ("C", 2.0, {"filled": 3})
    assert (mark["ph"], mark["ts"], mark["args"]) == ("i", 2.0, {"path": 'a "b"[/c]\n\u00e9'})


def test_args_are_json_scalars_whatever_is_passed(tmp_path):
    import numpy as np
    import torch

    tracer = Tracer("learner", run_dir=tmp_path)
    with tracer.span(
        'odd "name"',
        nan=float("nan"),
        inf=-float("inf"),
        count=np.int64(3),
        half=np.float32(0.5),
        npnan=np.float32("nan"),
        yes=True,
        none=None,
        tensor=torch.ones(3),
        rows=[1],
    ):
        pass
    tracer.close()

    (event,) = named(merged(tmp_path), 'odd "name"')
    assert event["args"] == {
        "nan": "nan",
        "inf": "-inf",
        "count": 3,
        "half": 0.5,
        "npnan": "nan",
        "yes": True,
        "none": None,
        "tensor": "<Tensor>",
        "rows": "<list>",
    }


def test_each_thread_has_its_own_named_track(tmp_path):
    tracer = Tracer("learner", run_dir=tmp_path)
    with tracer.span("take"):
        pass
    tids = []

    def work():
        tids.append(threading.get_native_id())
        with tracer.span("pack"):
            pass

    packer = threading.Thread(target=work, name="packer")
    packer.start()
    packer.join()
    tracer.close()

    events = merged(tmp_path)
    tracks = {e["args"]["name"]: e["tid"] for e in named(events, "thread_name")}
    assert set(tracks) == {"main", "packer"}
    assert named(events, "pack")[0]["tid"] == tracks["packer"] == tids[0]
    assert named(events, "take")[0]["tid"] == tracks["main"] == threading.get_native_id()
    assert [e["args"]["name"] for e in named(events, "process_name")] == ["learner"]


def test_nothing_is_written_and_nothing_merged_when_tracing_is_off(tmp_path):
    tracer = Tracer("learner")
    with tracer.span("tick"):
        tracer.counter("ring", filled=1)
        tracer.instant("now")
    tracer.close()

    assert merge_trace(tmp_path) is None
    assert tracer.dropped == 0
    assert list(tmp_path.iterdir()) == []


def test_an_untraced_span_costs_less_than_5_us():
    tracer = Tracer("learner")

    def mean_us(spans=2000):
        start = time.perf_counter_ns()
        for _ in range(spans):
            with tracer.span("update"):
                pass
        return (time.perf_counter_ns() - start) / spans / 1000

    assert min(mean_us() for _ in range(10)) < 5

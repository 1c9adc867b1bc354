"""Device spans on the host's clock: a device with a queue, an offset and a drift, all by hand."""

import pytest
from trace_judge import FakeClock, ended, named, traced

from unilab.telemetry.trace_device import DeviceClock, TracedDeviceSpans
from unilab.telemetry.trace_ticks import TickRange

MS = 1_000_000


class Device:
    """Carries out work in order; its clock reads ``offset`` more and runs ``rate`` times as fast."""

    def __init__(self, clock, *, offset_ms=1000.0, rate=1.0):
        self.clock, self.offset_ms, self.rate = clock, offset_ms, rate
        self.free_ns = 0

    def run(self, ns):
        self.free_ns = max(self.free_ns, self.clock.now) + ns

    def event(self):
        return Event(self)


class Event:
    def __init__(self, device):
        self.device = device
        self.at_ns = None

    def record(self, stream):
        self.at_ns = max(self.device.free_ns, self.device.clock.now)

    def query(self):
        return self.at_ns <= self.device.clock.now

    def elapsed_time(self, end):
        return (end.at_ns - self.at_ns) / 1e6 * self.device.rate

    def synchronize(self):
        self.device.clock.now = max(self.device.clock.now, self.at_ns)


def spans_of(tmp_path, clock, device, **spec):
    tracer = traced(tmp_path, clock=clock, **spec)
    spans = TracedDeviceSpans(tracer, "CUDA copies", "cuda_copy", DeviceClock(device.event, None, clock))
    return tracer, spans


def test_spans_stand_where_the_device_ran_not_where_they_were_issued(tmp_path):
    clock = FakeClock(5 * MS)
    device = Device(clock)
    tracer, spans = spans_of(tmp_path, clock, device)
    for _ in range(2):  # both issued at 5 ms; the second waits for the first
        spans.begin(None)
        device.run(3 * MS)
        spans.end(None)
    clock.pass_ns(100 * MS)
    spans.close()
    tracer.close()

    events = ended(tmp_path)
    assert [(e["ts"], e["dur"]) for e in named(events, "cuda_copy")] == [(5000, 3000), (8000, 3000)]
    (track,) = {e["tid"] for e in named(events, "cuda_copy")}
    assert track in [e["tid"] for e in named(events, "thread_name") if e["args"]["name"] == "CUDA copies"]


def test_what_has_not_ended_is_not_waited_for(tmp_path):
    clock = FakeClock()
    device = Device(clock)
    tracer, spans = spans_of(tmp_path, clock, device)
    spans.begin(None)
    device.run(50 * MS)
    spans.end(None)
    spans.begin(None)
    assert clock.now == 0
    tracer.close()

    assert named(ended(tmp_path), "cuda_copy") == []


@pytest.mark.parametrize("rate", [0.999, 1.001])
def test_a_clock_that_drifts_is_kept_between_issue_and_sight(tmp_path, rate):
    clock = FakeClock(1000 * MS)
    device = Device(clock, rate=rate)
    tracer, spans = spans_of(tmp_path, clock, device)
    truth = []
    for _ in range(2000):  # 20 s, after which the clocks are 20 ms apart
        truth.append(clock.now / 1000)
        spans.begin(None)
        device.run(4 * MS)
        spans.end(None)
        clock.pass_ns(4 * MS)
        spans._write_ended()
        clock.pass_ns(6 * MS)
    tracer.close()

    starts = [e["ts"] for e in named(ended(tmp_path), "cuda_copy")]
    assert len(starts) == len(truth)
    assert (
        max(abs(a - b) for a, b in zip(starts, truth, strict=True)) < 50
    )  # us: a thousandth of 4 ms, and one tick's drift


def test_ticks_that_are_not_recorded_record_no_event(tmp_path):
    clock = FakeClock()
    tracer, spans = spans_of(tmp_path, clock, Device(clock), ticks=TickRange(5, 5))
    made = []
    spans._clock.make_event = lambda: made.append(Event(Device(clock))) or made[-1]
    tracer.at(4)
    spans.begin(None)
    spans.end(None)
    assert made == []
    tracer.at(5)
    spans.begin(None)
    spans.end(None)
    spans.close()
    tracer.close()

    assert len(made) == 2
    assert len(named(ended(tmp_path), "cuda_copy")) == 1

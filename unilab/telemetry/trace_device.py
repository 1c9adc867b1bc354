"""Spans at the time of a device, by its events: nothing waits for the device, and tracing off is a null object.

A device has a clock of its own. Its start is found once, while it is idle. From then on two facts keep it right, also
where it drifts: nothing starts before it was issued, and what was seen to have ended ended before it was seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from unilab.telemetry.trace import Span, Tracer
from unilab.telemetry.trace_track import Track

_PENDING = 64  # spans whose end has not been seen
_REBASE_MS = 5_000.0  # elapsed times are float32: beyond this they lose the microsecond


class DeviceEvent(Protocol):
    """A marker in the device's queue; ``torch.cuda.Event(enable_timing=True)`` is one."""

    def record(self, stream: Any) -> None:
        """Put it in the queue."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from here to a later event, both passed."""

    def synchronize(self) -> None:
        """Wait for it."""


class DeviceClock:
    """When events happened, by the host's clock.

    Args:
        make_event: a new event.
        stream: idle or soon so; it is waited for here, at the start of a run.
        now_ns: the host's clock.
    """

    def __init__(
        self, make_event: Callable[[], DeviceEvent], stream: Any, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.make_event = make_event
        self.now_ns = now_ns
        for _ in range(2):  # the first event of a process may take long
            self._base = make_event()
            self._base_ns = float(now_ns())
            self._base.record(stream)
            self._base.synchronize()

    def span_ns(self, begin: DeviceEvent, end: DeviceEvent, issued_ns: int, seen_ns: int) -> tuple[int, int]:
        """Start and end of what was issued and later seen to have ended at these host times."""
        elapsed_ms = self._base.elapsed_time(begin)
        start_ns = self._base_ns + 1e6 * elapsed_ms
        duration_ns = 1e6 * begin.elapsed_time(end)
        wrong_ns = max(0.0, issued_ns - start_ns) or min(0.0, seen_ns - start_ns - duration_ns)
        self._base_ns += wrong_ns
        start_ns += wrong_ns
        if elapsed_ms > _REBASE_MS:
            self._base, self._base_ns = begin, start_ns
        return int(start_ns), int(start_ns + duration_ns)


class DeviceSpans(Protocol):
    """Spans of one queue of the device, one after the other."""

    def begin(self, stream: Any) -> None:
        """What is queued from now on belongs to a span."""

    def end(self, stream: Any) -> None:
        """Up to here."""

    def close(self) -> None:
        """Write what has ended."""


class NoDeviceSpans:
    """Tracing is off."""

    def begin(self, stream: Any) -> None:
        """Nothing."""

    def end(self, stream: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class TracedDeviceSpans:
    """A track of its own.

    Args:
        tracer: of the process.
        track: name of the track.
        name: of the spans.
        clock: of the device.
    """

    def __init__(self, tracer: Tracer, track: str, name: str, clock: DeviceClock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._track: Track = tracer.new_track(track)
        self._span = Span(name, clock.now_ns, self._track)
        self._open: tuple[DeviceEvent, int] | None = None
        self._pending: deque[tuple[DeviceEvent, DeviceEvent, int]] = deque(maxlen=_PENDING)

    def begin(self, stream: Any) -> None:
        """See ``DeviceSpans``; also writes what has ended meanwhile."""
        self._write_ended()
        if self._tracer.recording:
            event = self._clock.make_event()
            self._open = event, self._clock.now_ns()
            event.record(stream)

    def end(self, stream: Any) -> None:
        """See ``DeviceSpans``."""
        if self._open:
            event = self._clock.make_event()
            event.record(stream)
            self._pending.append((self._open[0], event, self._open[1]))
            self._open = None

    def close(self) -> None:
        """See ``DeviceSpans``."""
        self._write_ended()

    def _write_ended(self) -> None:
        while self._pending and self._pending[0][1].query():
            begin, end, issued_ns = self._pending.popleft()
            self._track.complete(self._span, *self._clock.span_ns(begin, end, issued_ns, self._clock.now_ns()))

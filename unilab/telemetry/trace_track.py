"""One row of the timeline: formats a thread's events, or takes them and does nothing.

Chrome trace events as Perfetto reads them: ``ts`` and ``dur`` in microseconds, arrows as ``bind_id`` on the spans that
they join. Each line is one event, a comma and a newline.
"""

from __future__ import annotations

import json
import math
import numbers
import os
from collections import deque
from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

from unilab.telemetry.memory import resident_bytes

FLOWS: Mapping[str, tuple[str, int, str]] = {
    "pack": ("tick", 0, ',"flow_out":true'),
    "copy": ("tick", 0, ',"flow_in":true,"flow_out":true'),
    "update": ("tick", 0, ',"flow_in":true'),
    "publish": ("version", 1, ',"flow_out":true'),
    "fetch": ("version", 1, ',"flow_in":true'),
}
"""Arrows pack -> copy -> update of one tick, and publish -> fetch of one version: which argument of the span is the
number, the arrow's last bit, the direction."""

MAX_LINES = 100_000  # that a thread buffers while the disk does not keep up: some 20 MB

quote = json.encoder.encode_basestring_ascii  # a JSON string; json.dumps takes six times as long


class Timed(Protocol):
    """What a track needs to know of a span that ended."""

    name: str
    head: str
    args: dict[str, object]
    extra: str
    linked: object


class Track(Protocol):
    """One row of the timeline."""

    recording: bool
    """Whether spans are written at present."""

    def head(self, json_name: str) -> str:
        """The beginning of a span's event."""

    def complete(self, span: Any, start_ns: int, end_ns: int) -> None:
        """A span ended."""

    def counter(self, name: str, now_ns: int, values: Mapping[str, float]) -> None:
        """A counter was sampled."""

    def instant(self, name: str, now_ns: int, args: Mapping[str, object]) -> None:
        """An instant was marked."""

    def at(self, ticks: Sequence[int]) -> None:
        """What comes next belongs to one of these ticks."""


class NullTrack:
    """Tracing is off."""

    recording = False

    def head(self, json_name: str) -> str:
        """Nothing."""
        return ""

    def complete(self, span: Any, start_ns: int, end_ns: int) -> None:
        """Nothing."""

    def counter(self, name: str, now_ns: int, values: Mapping[str, float]) -> None:
        """Nothing."""

    def instant(self, name: str, now_ns: int, args: Mapping[str, object]) -> None:
        """Nothing."""

    def at(self, ticks: Sequence[int]) -> None:
        """Nothing."""


NULL_TRACK = NullTrack()


class FileTrack:
    """A row that is written.

    Args:
        pid: of the process.
        tid: of the row.
        name: of the row.
        t0_ns: what times count from.
        ticks: the ones that are recorded.
    """

    def __init__(self, pid: int, tid: int, name: str, t0_ns: int, ticks: Container[int]) -> None:
        self._ids = f'"pid":{pid},"tid":{tid}'
        self._t0_ns = t0_ns
        self._ticks = ticks
        self.lines = LineBuffer()
        self.lines.add(event("M", '"thread_name"', 0, self._ids, json_args({"name": name})))
        self.recording = True
        # Swapped, not asked: what is not recorded costs what it costs with tracing off.
        self.complete = self._complete
        self.counter = self._counter

    def head(self, json_name: str) -> str:
        """The beginning of a span's event."""
        return f'{{"ph":"X","name":{json_name},{self._ids},"ts":'

    def instant(self, name: str, now_ns: int, args: Mapping[str, object]) -> None:
        """Add an i event on this track."""
        self.lines.add(event("i", quote(name), self._us(now_ns), self._ids, ',"s":"t"' + json_args(args)))

    def at(self, ticks: Sequence[int]) -> None:
        """Write or leave out what comes next."""
        recording = any(tick < 0 or tick in self._ticks for tick in ticks)
        if recording == self.recording:
            return
        self.recording = recording
        self.complete = self._complete if recording else NULL_TRACK.complete
        self.counter = self._counter if recording else NULL_TRACK.counter

    def _complete(self, span: Timed, start_ns: int, end_ns: int) -> None:
        rest = _rest(span) if span.args else ""
        ts, dur = (start_ns - self._t0_ns) / 1000, (end_ns - start_ns) / 1000
        self.lines.add(f'{span.head}{ts:.3f},"dur":{dur:.3f}{span.extra}{rest}}},\n')

    def _counter(self, name: str, now_ns: int, values: Mapping[str, float]) -> None:
        """Add a C event of the finite values (a viewer cannot draw the others)."""
        if finite := {key: value for key, value in values.items() if math.isfinite(value)}:
            self.lines.add(event("C", quote(name), self._us(now_ns), self._ids, json_args(finite)))

    def _us(self, now_ns: int) -> float:
        return (now_ns - self._t0_ns) / 1000


class LineBuffer:
    """Lines from one thread to the one that writes them, bounded, without a lock."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self.dropped = 0

    def add(self, line: str) -> None:
        """Take a line; once one was dropped, so are all: no event may claim that a gap was quiet."""
        if self.dropped or len(self._lines) >= MAX_LINES:
            self.dropped += 1
        else:
            self._lines.append(line)

    def take(self) -> list[str]:
        """What has come so far; for one reader."""
        return [self._lines.popleft() for _ in range(len(self._lines))]


def event(kind: str, json_name: str, ts_us: float, ids: str, rest: str = "") -> str:
    """One event as a line; ``json_name``, ``ids`` and ``rest`` are JSON already."""
    return f'{{"ph":"{kind}","name":{json_name},{ids},"ts":{ts_us:.3f}{rest}}},\n'


def json_args(args: Mapping[str, object]) -> str:
    """``,"args":{...}``: strict JSON with scalars only."""
    return ',"args":{' + ",".join([f"{quote(key)}:{_scalar(value)}" for key, value in args.items()]) + "}"


def order_of(process: str) -> int:
    """From top to bottom: the learner is 0."""
    return {"learner": 0, "collector": 1}.get(process.partition("-")[0], 2)


def process_names(pid: int, name: str) -> list[str]:
    """What names a process and puts the learner on top."""
    ids = f'"pid":{pid},"tid":{pid}'
    return [
        event("M", '"process_name"', 0, ids, json_args({"name": name})),
        event("M", '"process_sort_index"', 0, ids, json_args({"sort_index": order_of(name)})),
    ]


def rss_line(pid: int, ts_us: float) -> str:
    """This process's resident memory as a counter; empty where there is no /proc."""
    nbytes = resident_bytes()
    if nbytes is None:
        return ""
    # Under the main thread's number, which has a name.
    return event("C", '"rss"', ts_us, f'"pid":{pid},"tid":{os.getpid()}', json_args({"MiB": round(nbytes / 2**20, 1)}))


def _rest(span: Timed) -> str:
    """Arguments, and an arrow at the first span of a number."""
    flow = FLOWS.get(span.name)
    if flow is None:
        return json_args(span.args)
    key, bit, direction = flow
    number = span.args.get(key)
    if type(number) is not int or number == span.linked:
        return json_args(span.args)
    span.linked = number
    return f',"bind_id":"{4 * number + 2 * bit + 1:#x}"{direction}{json_args(span.args)}'


def _scalar(value: object) -> str:
    """JSON of a scalar; NaN and infinities as words, a numpy number as a number, anything else by its type.

    Only its type's name is taken of a foreign object: to print a tensor would wait for its device.
    """
    kind = type(value)
    if kind is int:
        return repr(value)
    if kind is str:
        return quote(str(value))
    if value is None or kind is bool:
        return json.dumps(value)
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        return repr(number) if math.isfinite(number) else f'"{number}"'
    return quote(f"<{kind.__name__}>")

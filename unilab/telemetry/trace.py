"""Where the time goes: ``with tracer.span("pack"):`` adds up wall time and, where asked, records it.

Every process has one ``Tracer``. Totals per name are always kept, for the split of a tick's wall time. With a
``TraceSpec`` the same spans also become events in the run's trace file (``trace_file``); without one a null track takes
them, so no caller ever asks whether tracing is on.

Each thread has its own spans, totals and track, so no lock is taken in a loop. Spans of one thread nest; a
name must not be opened again inside itself, because a thread has one span object a name. Spans that overlap
without nesting (a device copy, say) need a track of their own (``new_track``): viewers drop them otherwise.

Times come from one clock for all processes of the host and count from ``t0_ns``, an instant of that clock
that the learner takes once and hands to its workers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from unilab.telemetry.trace_file import TraceFile
from unilab.telemetry.trace_track import (
    NULL_TRACK,
    FileTrack,
    NullTrack,
    Track,
    order_of,
    process_names,
    quote,
    rss_line,
)
from unilab.telemetry.trace_writer import TraceWriter

OUTSIDE = -1
"""The "tick" of what belongs to none (saving, evaluating): always recorded."""

_ALIAS = 2**22  # above the largest pid there can be


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpec:
    """What is recorded, and where; the same in all processes of a run, and picklable."""

    path: Path
    t0_ns: int = 0  # the run's start by the clock
    ticks: Container[int]  # the ones that are recorded
    max_bytes: int = 48 * 2**20  # of the file; what comes later is dropped and counted
    cpu: bool = False  # each span's CPU time too


class Tracer:
    """Spans, counters and instants of one process.

    Args:
        process: "learner", "collector-0", ...; names the process in the viewer.
        spec: what to record; None keeps totals only.
        guest: a role that is played inside another role's process; it is shown as a process of its own.
        clock: nanoseconds, one clock for all processes.
    """

    def __init__(
        self,
        process: str,
        spec: TraceSpec | None = None,
        *,
        guest: bool = False,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._clock = clock
        self._spec = spec
        self._pid = os.getpid() + guest * _ALIAS * order_of(process)
        self._span_class: type[Span] = CpuSpan if spec and spec.cpu else Span
        self._writer: TraceWriter | None = None
        self._tracks: list[FileTrack] = []
        self._spans: list[_Spans] = []
        if spec:
            names = process_names(self._pid, process)
            # A guest's memory is its host's: that one reports it.
            self._writer = TraceWriter(TraceFile(spec.path, spec.max_bytes), names, lambda: self._rss(guest))
        self._mine = _PerThread(self)

    def span(self, name: str, /, **args: object) -> Span:
        """Context manager that times its body; ``args`` appear on the event (JSON scalars)."""
        span = self._mine.spans[name]
        span.args = args
        return span

    def counter(self, name: str, /, **values: float) -> None:
        """Sample a counter track; a value that is not finite is left out."""
        self._mine.track.counter(name, self._clock(), values)

    def instant(self, name: str, /, **args: object) -> None:
        """Mark one instant on this thread's track."""
        self._mine.track.instant(name, self._clock(), args)

    def at(self, *ticks: int) -> None:
        """Say which tick (or ticks) this thread's next spans belong to: whether they are recorded."""
        self._mine.track.at(ticks)

    @property
    def recording(self) -> bool:
        """Whether this thread's spans are recorded at present."""
        return self._mine.track.recording

    def new_track(self, name: str) -> Track:
        """A named track for spans that are timed elsewhere, or that overlap those of the thread; for one thread."""
        return self._new_track(name, 10**9 + len(self._tracks))  # no thread's number is that large

    @property
    def totals_ns(self) -> dict[str, int]:
        """Wall time of the spans that ended since ``take_totals``, by name, summed over threads."""
        return self._totals(take=False)

    def take_totals(self) -> dict[str, int]:
        """``totals_ns``, which then starts from nothing. For one reader.

        The owning thread only ever adds to ``total_ns`` and the reader only remembers how far it has read, so
        neither can lose what the other does.
        """
        return self._totals(take=True)

    @property
    def dropped(self) -> int:
        """Events that a limit or a disk error kept out of the file."""
        return self._writer.dropped if self._writer else 0

    @property
    def lost(self) -> str | None:
        """What went wrong with the file, in a few words; None while nothing has."""
        return self._writer.lost if self._writer else None

    def close(self) -> None:
        """Write what is buffered; later events are dropped. Other threads should have ended; idempotent."""
        if self._writer and self._spec:
            self._writer.close(self._pid, threading.get_native_id(), (self._clock() - self._spec.t0_ns) / 1000)

    def _rss(self, guest: bool) -> str:
        if guest or self._spec is None:
            return ""
        return rss_line(self._pid, (self._clock() - self._spec.t0_ns) / 1000)

    def _totals(self, *, take: bool) -> dict[str, int]:
        totals: dict[str, int] = {}
        for spans in list(self._spans):
            for span in list(spans.values()):
                total_ns = span.total_ns
                if total_ns != span.taken_ns:
                    totals[span.name] = totals.get(span.name, 0) + total_ns - span.taken_ns
                    span.taken_ns = total_ns if take else span.taken_ns
        return totals

    def _new_track(self, name: str, tid: int) -> FileTrack | NullTrack:
        if self._writer is None or self._spec is None:
            return NULL_TRACK
        track = FileTrack(self._pid, tid, name, self._spec.t0_ns, self._spec.ticks)
        self._tracks.append(track)
        self._writer.add(track.lines)
        return track

    def _new_thread(self) -> tuple[Track, _Spans]:
        thread = threading.current_thread()
        name = "main" if thread is threading.main_thread() else thread.name
        track = self._new_track(name, threading.get_native_id())
        spans = _Spans(self._span_class, self._clock, track)
        self._spans.append(spans)
        return track, spans


class Span:
    """One name's timer on one thread, used again and again."""

    __slots__ = (
        "_clock",
        "_cpu_ns",
        "_track",
        "args",
        "extra",
        "head",
        "linked",
        "name",
        "start_ns",
        "taken_ns",
        "total_ns",
    )

    def __init__(self, name: str, clock: Callable[[], int], track: Track) -> None:
        self.name = name
        self.head = track.head(quote(name))  # the event up to its time
        self.args: dict[str, object] = {}
        self.extra = ""  # JSON members of the event
        self.linked: object = None  # the last number that an arrow to or from this span had
        self.start_ns = 0
        self.total_ns = 0
        self.taken_ns = 0  # how much of total_ns take_totals has returned
        self._clock = clock
        self._track = track

    def __enter__(self) -> None:
        self.start_ns = self._clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_ns = self._clock()
        self.total_ns += end_ns - self.start_ns
        self._track.complete(self, self.start_ns, end_ns)


class CpuSpan(Span):
    """One that also reads the thread's CPU clock: less than its wall time means that it waited or was preempted."""

    __slots__ = ()

    def __enter__(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        self.start_ns = self._clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_ns = self._clock()
        start_ns = self._cpu_ns
        self.extra = f',"tts":{start_ns / 1000:.3f},"tdur":{(time.thread_time_ns() - start_ns) / 1000:.3f}'
        self.total_ns += end_ns - self.start_ns
        self._track.complete(self, self.start_ns, end_ns)


class _Spans(dict[str, Span]):
    """A thread's spans by name, made at first use."""

    def __init__(self, kind: type[Span], clock: Callable[[], int], track: Track) -> None:
        super().__init__()
        self._kind = kind
        self._clock = clock
        self._track = track

    def __missing__(self, name: str) -> Span:
        span = self[name] = self._kind(name, self._clock, self._track)
        return span


class _PerThread(threading.local):
    """The calling thread's track and spans: Python runs this constructor once in each thread."""

    def __init__(self, tracer: Tracer) -> None:
        self.track, self.spans = tracer._new_thread()

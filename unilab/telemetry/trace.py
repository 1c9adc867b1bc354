"""Where the time goes: ``with tracer.span("pack"):`` adds up wall time and, where asked, records it.

Every process has one ``Tracer``. Totals per name are always kept, for the split of a tick's wall time. With a
run directory the same spans also become Chrome trace events in this process's part file (``trace_file``);
without one, a null recorder takes them, so no caller ever asks whether tracing is on.

Each thread has its own spans, totals and track, so no lock is taken in a loop. Spans of one thread nest; a
name must not be opened again inside itself, because a thread has one span object a name. Spans that overlap
without nesting (a device copy, say) need a thread of their own: viewers drop them otherwise.

Times come from one clock for all processes of the host and count from ``t0_ns``, an instant of that clock
that the learner takes once and hands to its workers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from unilab.telemetry.trace_file import PartFile, clear_trace, merge_trace, quote
from unilab.telemetry.trace_recorder import FileRecorder, NullRecorder, Recorder

__all__ = ["Span", "Tracer", "clear_trace", "merge_trace"]


class Tracer:
    """Spans, counters and instants of one process."""

    def __init__(
        self,
        process: str,
        *,
        run_dir: Path | None = None,
        t0_ns: int = 0,
        max_bytes: int = 16 * 2**20,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Start tracing.

        Args:
            process: "learner", "collector-0", ...; names the process in the viewer and its part file.
            run_dir: records events below it; None keeps totals only.
            t0_ns: the run's start by ``clock``, the same number in all processes.
            max_bytes: size limit of the part file; later events are dropped and counted in ``dropped``.
            clock: nanoseconds, one clock for all processes.
        """
        self._clock = clock
        self._t0_ns = t0_ns
        self._part = PartFile(run_dir, process, max_bytes) if run_dir is not None else None
        self._threads: list[tuple[Recorder, dict[str, Span]]] = []
        self._mine = _PerThread(self)

    def span(self, name: str, /, **args: object) -> Span:
        """Context manager that times its body; ``args`` appear on the event (JSON scalars)."""
        span = self._mine.spans[name]
        span.args = args
        return span

    def counter(self, name: str, /, **values: float) -> None:
        """Sample a counter track; a value that is not finite is left out."""
        self._mine.recorder.counter(name, values)

    def instant(self, name: str, /, **args: object) -> None:
        """Mark one instant on this thread's track."""
        self._mine.recorder.instant(name, args)

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
        """Events that the size limit or a full disk kept out of the part file."""
        return self._part.dropped if self._part is not None else 0

    def close(self) -> None:
        """Write what is buffered; later events are dropped. Other threads should have ended; idempotent."""
        if self._part is None:
            return
        for recorder, _ in list(self._threads):
            recorder.flush()
        self._part.close((self._clock() - self._t0_ns) / 1000)

    def _totals(self, *, take: bool) -> dict[str, int]:
        totals: dict[str, int] = {}
        for _, spans in list(self._threads):
            for span in list(spans.values()):
                total_ns = span.total_ns
                if total_ns != span.taken_ns:
                    totals[span.name] = totals.get(span.name, 0) + total_ns - span.taken_ns
                    span.taken_ns = total_ns if take else span.taken_ns
        return totals

    def _new_thread(self) -> tuple[Recorder, dict[str, Span]]:
        if self._part is None:
            recorder: Recorder = NullRecorder()
        else:
            recorder = FileRecorder(self._part, self._clock, self._t0_ns)
        spans = _Spans(self._clock, recorder.complete)
        self._threads.append((recorder, spans))
        return recorder, spans


class Span:
    """One name's timer on one thread, used again and again."""

    __slots__ = ("_clock", "_complete", "args", "json_name", "name", "start_ns", "taken_ns", "total_ns")

    def __init__(self, name: str, clock: Callable[[], int], complete: Callable[..., None]) -> None:
        self.name = name
        self.json_name = quote(name)
        self.args: dict[str, object] = {}
        self.start_ns = 0
        self.total_ns = 0
        self.taken_ns = 0  # how much of total_ns take_totals has returned
        self._clock = clock
        self._complete = complete

    def __enter__(self) -> None:
        self.start_ns = self._clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_ns = self._clock()
        self.total_ns += end_ns - self.start_ns
        self._complete(self.json_name, self.start_ns, end_ns, self.args)


class _Spans(dict[str, Span]):
    """A thread's spans by name, made at first use."""

    def __init__(self, clock: Callable[[], int], complete: Callable[..., None]) -> None:
        super().__init__()
        self._clock = clock
        self._complete = complete

    def __missing__(self, name: str) -> Span:
        span = self[name] = Span(name, self._clock, self._complete)
        return span


class _PerThread(threading.local):
    """The calling thread's recorder and spans: Python runs this constructor once in each thread."""

    def __init__(self, tracer: Tracer) -> None:
        self.recorder, self.spans = tracer._new_thread()

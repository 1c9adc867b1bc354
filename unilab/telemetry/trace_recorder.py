"""Where one thread's trace events go: nowhere, or formatted and in batches into the process's part file."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from unilab.telemetry.trace_file import PartFile, event, json_args, quote

FLUSH_EVENTS = 4096  # a thread never buffers more events than this
FLUSH_NS = 1_000_000_000  # nor, while events come, for longer than this: what a killed process may lose


class Recorder(Protocol):
    """One thread's track."""

    def complete(self, json_name: str, start_ns: int, end_ns: int, args: Mapping[str, object]) -> None:
        """A span ended."""

    def counter(self, name: str, values: Mapping[str, float]) -> None:
        """A counter was sampled."""

    def instant(self, name: str, args: Mapping[str, object]) -> None:
        """An instant was marked."""

    def flush(self) -> None:
        """Hand buffered events to the part file."""


class NullRecorder:
    """Tracing is off."""

    def complete(self, json_name: str, start_ns: int, end_ns: int, args: Mapping[str, object]) -> None:
        """Nothing."""

    def counter(self, name: str, values: Mapping[str, float]) -> None:
        """Nothing."""

    def instant(self, name: str, args: Mapping[str, object]) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""


class FileRecorder:
    """The track of the thread that constructs it."""

    def __init__(self, part: PartFile, clock: Callable[[], int], t0_ns: int) -> None:
        thread = threading.current_thread()
        name = "main" if thread is threading.main_thread() else thread.name
        self._ids = f'"pid":{os.getpid()},"tid":{threading.get_native_id()}'
        self._part = part
        self._clock = clock
        self._t0_ns = t0_ns
        self._flush_at_ns = 0
        self.lines: list[str] = []
        # Written now, not with the first batch: a part that is cut anywhere still names all its tracks.
        part.write([event("M", '"thread_name"', 0, self._ids, json_args({"name": name}))])

    def complete(self, json_name: str, start_ns: int, end_ns: int, args: Mapping[str, object]) -> None:
        """Add an X event; times by the clock, in ns."""
        ts = (start_ns - self._t0_ns) / 1000
        dur = (end_ns - start_ns) / 1000
        rest = json_args(args) if args else ""
        line = f'{{"ph":"X","name":{json_name},"ts":{ts:.3f},"dur":{dur:.3f},{self._ids}{rest}}}\n'
        self._add(line, end_ns)

    def counter(self, name: str, values: Mapping[str, float]) -> None:
        """Add a C event of the finite values (a viewer cannot draw the others)."""
        if finite := {key: value for key, value in values.items() if math.isfinite(value)}:
            self._add_now("C", name, json_args(finite))

    def instant(self, name: str, args: Mapping[str, object]) -> None:
        """Add an i event on this thread's track."""
        self._add_now("i", name, ',"s":"t"' + json_args(args))

    def flush(self) -> None:
        """Write the buffered lines in one piece."""
        lines, self.lines = self.lines, []
        self._part.write(lines)

    def _add_now(self, kind: str, name: str, rest: str) -> None:
        now_ns = self._clock()
        self._add(event(kind, quote(name), (now_ns - self._t0_ns) / 1000, self._ids, rest), now_ns)

    def _add(self, line: str, now_ns: int) -> None:
        self.lines.append(line)
        if len(self.lines) >= FLUSH_EVENTS or now_ns >= self._flush_at_ns:
            self._flush_at_ns = now_ns + FLUSH_NS
            self.flush()

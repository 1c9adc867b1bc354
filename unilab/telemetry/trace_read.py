"""Reads a trace back: the spans, counters and instants of each process, also of one that is cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unilab.errors import UnilabError

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SpanRead:
    """A span; times in seconds."""

    name: str
    start: float
    end: float
    args: dict[str, Any] = field(default_factory=dict)
    cpu: float | None = None  # seconds of its thread, where that was recorded

    @property
    def seconds(self) -> float:
        """Its wall time."""
        return self.end - self.start


@dataclass(slots=True)
class ProcessRead:
    """One process of the run."""

    name: str
    tracks: dict[str, list[SpanRead]] = field(default_factory=dict)  # by name of the thread, in order of start
    counters: dict[str, list[tuple[float, dict[str, float]]]] = field(default_factory=dict)
    instants: list[SpanRead] = field(default_factory=list)

    @property
    def main(self) -> list[SpanRead]:
        """Spans of its main thread."""
        return self.tracks.get("main", [])


@dataclass(frozen=True, slots=True)
class TraceRead:
    """All of a trace."""

    processes: dict[str, ProcessRead]
    whole: bool  # it was ended as it should

    def process(self, name: str) -> ProcessRead:
        """One process; an empty one where there is none."""
        return self.processes.get(name, ProcessRead(name))


def read_trace(path: Path) -> TraceRead:
    """Read a trace that unilab wrote, or any JSON array (or object) of Chrome events.

    Raises:
        UnilabError: it is not there, or no trace.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UnilabError(f"{path} cannot be read: {error.strerror or error}") from error
    whole, events = _whole(text)
    if not whole:
        events = list(_lines(text))
        if not events:
            raise UnilabError(f"{path} is no trace: it holds no event; --trace makes one")
    return TraceRead(_processes(events), whole)


def _whole(text: str) -> tuple[bool, list[Event]]:
    try:
        top = json.loads(text)
    except ValueError:
        return False, []
    events = top.get("traceEvents", []) if isinstance(top, dict) else top
    return True, [event for event in events if isinstance(event, dict)]


def _lines(text: str) -> Iterator[Event]:
    """The events of a file that was cut: every line that is one."""
    for line in text.splitlines():
        try:
            event = json.loads(line.strip().removesuffix(","))
        except ValueError:
            continue
        if isinstance(event, dict) and "ph" in event:
            yield event


def _processes(events: list[Event]) -> dict[str, ProcessRead]:
    """By name; two of one name (before and after a restart of the trace) become one."""
    names = {e["pid"]: str(e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {
        (e["pid"], e["tid"]): str(e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"
    }
    found: dict[str, ProcessRead] = {}
    for e in events:
        if e["ph"] not in ("X", "C", "i"):
            continue
        pid, tid = e["pid"], e.get("tid", 0)
        name = names.get(pid, str(pid))
        process = found.setdefault(name, ProcessRead(name))
        # In whole nanoseconds first: what ends as another begins must not seem to overlap it.
        start_ns, args = round(e["ts"] * 1000), e.get("args", {})
        start = start_ns / 1e9
        if e["ph"] == "X":
            cpu = e["tdur"] / 1e6 if "tdur" in e else None
            span = SpanRead(e["name"], start, (start_ns + round(e["dur"] * 1000)) / 1e9, args, cpu)
            process.tracks.setdefault(threads.get((pid, tid), str(tid)), []).append(span)
        elif e["ph"] == "C":
            process.counters.setdefault(e["name"], []).append((start, args))
        else:
            process.instants.append(SpanRead(e["name"], start, start, args))
    for process in found.values():
        for spans in process.tracks.values():
            spans.sort(key=lambda span: (span.start, -span.end))
        for samples in process.counters.values():
            samples.sort(key=lambda sample: sample[0])
    return found

"""What a thread was in at each instant: nested spans flattened to the innermost one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from unilab.report.intervals import Interval
from unilab.telemetry.trace_read import SpanRead

OTHER = "other"
CONTAINERS = frozenset({"tick", "chunk"})
"""Spans that only hold others: their own time is nobody's."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one thread's time."""

    name: str
    start: float
    end: float


def flatten(spans: Sequence[SpanRead], windows: Sequence[Interval]) -> list[Segment]:
    """The innermost span at each instant of the windows, gaps as ``other``; spans in order of start.

    A span that outlives the one it began in is cut with it: a thread cannot be in two at once.
    """
    segments: list[Segment] = []
    stack: list[tuple[str, float]] = []
    now = float("-inf")

    def until(time: float) -> None:
        nonlocal now
        while stack and stack[-1][1] <= time:
            name, end = stack.pop()
            if end > now:
                segments.append(Segment(name, now, end))
                now = end
        if time > now:
            if stack:
                segments.append(Segment(stack[-1][0], now, time))
            now = time

    for span in spans:
        until(span.start)
        limit = stack[-1][1] if stack else float("inf")
        stack.append((OTHER if span.name in CONTAINERS else span.name, min(span.end, limit)))
    until(float("inf"))
    return _fill(segments, windows)


def _fill(segments: list[Segment], windows: Sequence[Interval]) -> list[Segment]:
    """Clip to the windows and name the gaps."""
    ends = [segment.end for segment in segments]
    result: list[Segment] = []
    for start, end in windows:
        now = start
        for i in range(bisect_left(ends, start), len(segments)):
            segment = segments[i]
            if segment.start >= end:
                break
            first, last = max(segment.start, start), min(segment.end, end)
            if first > now:
                result.append(Segment(OTHER, now, first))
            if last > first:
                result.append(Segment(segment.name, first, last))
            now = max(now, last)
        if now < end:
            result.append(Segment(OTHER, now, end))
    return result


def seconds_by_name(segments: Sequence[Segment]) -> dict[str, float]:
    """Time in each."""
    seconds: dict[str, float] = {}
    for segment in segments:
        seconds[segment.name] = seconds.get(segment.name, 0.0) + segment.end - segment.start
    return seconds

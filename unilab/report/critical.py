"""The critical path: what the run's end waited for, then what that waited for, back to the start.

Making anything on it shorter makes the run shorter; making anything else shorter does not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from unilab.report.intervals import Interval
from unilab.report.segments import OTHER, Segment

HAND_OVER = "hand-over"

Lane = Sequence[Segment]
"""One thread, without gaps within a window."""


def critical_path(
    lanes: Mapping[str, Lane],
    windows: Sequence[Interval],
    waits: Mapping[str, frozenset[str]],
    feeders: Mapping[str, Sequence[str]],
    last: str,
) -> dict[str, float]:
    """Seconds on the path by ``"lane: span"``; they add up to the windows.

    Args:
        lanes: by name, in order.
        windows: stretches of time to walk through, each by itself.
        waits: by lane, the spans in which it waits for a feeder.
        feeders: by lane, the lanes that it waits for.
        last: the lane that the end is measured on.
    """
    seconds: dict[str, float] = {}
    tracks = {name: _Track(lane, waits.get(name, frozenset())) for name, lane in lanes.items()}
    for start, end in windows:
        lane, now = last, end
        while now > start:
            segment = tracks[lane].before(now)
            if segment is None:
                _add(seconds, f"{lane}: {OTHER}", now - start)
                break
            begin = max(segment.start, start)
            if segment.name in tracks[lane].waits:
                ready = [(tracks[f].ended(begin, now), f) for f in feeders.get(lane, ()) if f in tracks]
                found = max(((at, f) for at, f in ready if at is not None), default=None)
                if found is not None:
                    _add(seconds, HAND_OVER, now - found[0])
                    now, lane = found
                    continue
            _add(seconds, f"{lane}: {segment.name}", now - begin)
            now = begin
    return seconds


class _Track:
    """One lane, to be searched by time."""

    def __init__(self, lane: Lane, waits: frozenset[str]) -> None:
        self.waits = waits
        self._lane = lane
        self._starts = [segment.start for segment in lane]
        self._ends = [segment.end for segment in lane if segment.name not in waits]

    def before(self, now: float) -> Segment | None:
        """What it was in just before ``now``."""
        i = bisect_left(self._starts, now) - 1
        return self._lane[i] if i >= 0 else None

    def ended(self, after: float, now: float) -> float | None:
        """When the last of its work that ended after ``after`` did so, by ``now``."""
        i = bisect_right(self._ends, now) - 1
        return self._ends[i] if i >= 0 and self._ends[i] > after else None


def _add(seconds: dict[str, float], name: str, amount: float) -> None:
    if amount > 0:
        seconds[name] = seconds.get(name, 0.0) + amount

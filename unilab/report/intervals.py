"""Sets of times as sorted lists of intervals that do not touch."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Everything that any of them covers."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif end > start:
            result.append((start, end))
    return result


def common(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """What both cover; both as ``union`` returns them."""
    result, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            result.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return result


def length(intervals: Iterable[Interval]) -> float:
    """Of all together."""
    return sum(end - start for start, end in intervals)

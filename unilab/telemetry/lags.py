"""Small whole numbers, such as versions between learner and policy, as counts: exact, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Histogram = Mapping[int, int]
"""How often each value was seen."""


class Lags:
    """How old weights are, in versions: of each chunk when it began and when it came in, and of the rows trained on.

    Args:
        bound: chunks that are older when they come in are counted; None: any age is right.
    """

    NAMES = ("at_launch", "at_arrival")

    def __init__(self, bound: int | None = None) -> None:
        self._bound = bound
        self._counts: dict[str, Counter[int]] = {name: Counter() for name in (*self.NAMES, "row_age")}

    def add(self, chunks: Iterable[tuple[int, int]]) -> None:
        """Take the lags of chunks at launch and at arrival."""
        for lags in chunks:
            for name, lag in zip(self.NAMES, lags, strict=True):
                self._counts[name][lag] += 1

    def add_ages(self, ages: Iterable[int]) -> None:
        """Take the ages of rows."""
        self._counts["row_age"].update(ages)

    def drain(self) -> tuple[dict[str, float], dict[str, Histogram]]:
        """Scalars and histograms by their full names, of what came since the last call; empty for what did not."""
        seen = {name: counts for name, counts in self._counts.items() if counts}
        scalars = {
            f"lag/{name}_{what}": float(value)
            for name, counts in seen.items()
            if name in self.NAMES
            for what, value in (("p50", quantile(counts, 0.5)), ("p95", quantile(counts, 0.95)), ("max", max(counts)))
        }
        if self._bound is not None and (arrivals := seen.get("at_arrival")):
            scalars["lag/over_bound"] = float(sum(n for lag, n in arrivals.items() if lag > self._bound))
        histograms: dict[str, Histogram] = {f"lag/{name}_histogram": dict(counts) for name, counts in seen.items()}
        for counts in self._counts.values():
            counts.clear()
        return scalars, histograms


def quantile(counts: Histogram, share: float) -> int:
    """The smallest value that at least this share of what was seen does not exceed."""
    wanted, seen = share * sum(counts.values()), 0
    for value, count in sorted(counts.items()):
        seen += count
        if seen >= wanted:
            return value
    raise ValueError("nothing was seen")

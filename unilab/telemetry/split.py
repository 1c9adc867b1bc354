"""Where wall time goes: seconds by part, collected between two reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class TimeSplit:
    """Adds up seconds by part and turns them into shares of the wall time."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add seconds by part."""
        self._seconds.update(seconds)

    def take_shares(self, wall_s: float) -> dict[str, float]:
        """Shares of ``wall_s`` by part since the last call, with ``other`` for the rest; they add up to 1."""
        if wall_s <= 0:
            return {}
        shares = {name: seconds / wall_s for name, seconds in self._seconds.items()}
        self._seconds.clear()
        return shares | {"other": 1.0 - sum(shares.values())}

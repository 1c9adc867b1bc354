"""How long ticks take, what each process does meanwhile, and what that suggests: a run's last lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

WAITS = {"learner": "wait_batch", "collector": "wait_grant"}
"""What a role's waiting for the other one is called."""

_STEP = math.log(1.01)  # a class of durations is 1 % wide
_SMALL = 0.05  # a share that does not matter


@dataclass(frozen=True, slots=True)
class TickStats:
    """Durations of ticks, from one's start to the next one's, in seconds."""

    n: int
    mean: float
    median: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Timing:
    """What a run's time went into."""

    ticks: TickStats
    env_steps_per_s: float
    updates_per_s: float
    split: Mapping[str, Mapping[str, float]]  # share of the wall time by process and span; each adds up to 1
    serial: bool = False
    free: bool = False  # free-running


class TickTimes:
    """Durations of any number of ticks in bounded memory: counted by classes 1 % wide."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._counts: Counter[int] = Counter()
        self._last = self._first = clock()
        self._n = 0

    def start(self) -> None:
        """The first tick begins now; what was counted is forgotten."""
        self._last = self._first = self._clock()
        self._counts.clear()
        self._n = 0

    def tick(self) -> None:
        """A tick ends now."""
        now = self._clock()
        self._counts[int(math.log(max(now - self._last, 1e-9)) // _STEP)] += 1
        self._n += 1
        self._last = now

    @property
    def seconds(self) -> float:
        """Of all ticks together."""
        return self._last - self._first

    def until_now(self) -> float:
        """Seconds from the first tick's start to now."""
        return self._clock() - self._first

    def stats(self) -> TickStats | None:
        """Exact mean, quantiles within 1 %; None without a tick."""
        if not self._n:
            return None
        return TickStats(self._n, self.seconds / self._n, *(self._quantile(q) for q in (0.5, 0.9, 0.99)))

    def _quantile(self, q: float) -> float:
        rank, seen = q * self._n, 0
        for number in sorted(self._counts):
            seen += self._counts[number]
            if seen >= rank:
                return math.exp((number + 0.5) * _STEP)
        raise AssertionError("a quantile beyond the last class")


def shares(seconds: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Shares of a wall time; what no span covers is ``other``."""
    own = {name: value / wall_s for name, value in seconds.items() if value}
    return own | {"other": 1.0 - sum(own.values())}


def timing_lines(timing: Timing) -> list[str]:
    """Ticks and speeds, a line a process, and the advice."""
    ticks = timing.ticks
    unit, scale = ("ms", 1e3) if ticks.median < 1 else ("s", 1.0)
    mean, median, p90, p99 = (f"{value * scale:.3g}" for value in (ticks.mean, ticks.median, ticks.p90, ticks.p99))
    first = (
        f"{ticks.n:,} ticks of {mean} {unit} (median {median}, p90 {p90}, p99 {p99}): "
        f"{timing.env_steps_per_s:,.4g} env steps/s, {timing.updates_per_s:,.4g} updates/s"
    )
    width = max(len(name) for name in ("timing", *timing.split))
    rows = [("timing", first), *((name, _split(split)) for name, split in timing.split.items())]
    return [*(f"{name:<{width}}  {text}" for name, text in rows), advice(timing)]


def advice(timing: Timing) -> str:
    """What bounds the speed, and what to try, in one sentence."""
    if timing.serial:
        return "serial: collecting and learning take turns in one process; without --serial they overlap"
    learner = _role(timing.split, "learner")
    collector = _role(timing.split, "collector")
    learner_waits, collector_waits = learner.get(WAITS["learner"], 0.0), collector.get(WAITS["collector"], 0.0)
    updates = learner.get("update", 0.0)
    rest = {"other": 0.0} | {name: share for name, share in learner.items() if name not in (WAITS["learner"], "update")}
    own = max(rest.items(), key=_share)
    if learner_waits <= _SMALL and updates < 0.5 < own[1]:
        return f"bound by {own[0]} of the learner: it takes {own[1]:.0%} of the time, updates {updates:.0%}"
    if learner_waits <= _SMALL < collector_waits:
        return (
            f"learner-bound: updates take {updates:.0%} of the time, the collector waits {collector_waits:.0%}; "
            "a GPU, a smaller net or batch or fewer updates (--utd) make it faster, more envs do not"
        )
    if collector_waits <= _SMALL < learner_waits:
        part = max(((name, share) for name, share in collector.items() if name != WAITS["collector"]), key=_share)
        return (
            f"collector-bound: the learner waits {learner_waits:.0%} of the time, mostly for {part[0]} ({part[1]:.0%} "
            "of the collector's); a faster env or backend, or more updates per env step at no cost (--utd)"
        )
    if learner_waits > _SMALL and collector_waits > _SMALL:
        if not timing.free and sum(name.startswith("collector") for name in timing.split) > 1:
            return (
                f"bound by the slowest collector or free cores: the learner waits {learner_waits:.0%}, collectors "
                f"{collector_waits:.0%}; envs of uneven speed go faster with --pacing free"
            )
        return (
            f"bound by hand-overs or free cores: learner and collector both wait ({learner_waits:.0%} and "
            f"{collector_waits:.0%}); longer ticks (--num-envs, --steps-per-tick) and two free cores make it faster"
        )
    return "balanced: learner and collector hardly wait for one another"


def _role(split: Mapping[str, Mapping[str, float]], role: str) -> Mapping[str, float]:
    """Shares of a role: the mean of its processes."""
    found = [shares for name, shares in split.items() if name.partition("-")[0] == role] or [{"other": 1.0}]
    return {name: sum(shares.get(name, 0.0) for shares in found) / len(found) for name in found[0]}


def _share(item: tuple[str, float]) -> float:
    return item[1]


def _split(split: Mapping[str, float]) -> str:
    named = sorted(((name, share) for name, share in split.items() if name != "other"), key=_share, reverse=True)
    cells = [f"{name} {100 * share:.1f} %" for name, share in (*named, ("other", split.get("other", 0.0)))]
    return ", ".join(cells)

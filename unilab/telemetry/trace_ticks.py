"""Which ticks of a run are recorded: a function of the tick's number, the same in all processes."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from math import ceil, log2

from unilab.errors import ConfigError

_STRETCH = 32  # ticks in a row: arrows and waits lead from one tick to the next
_SHARE = 0.8  # of the size limit; the rest is for what comes besides ticks


@dataclass(frozen=True, slots=True)
class TickRange:
    """From ``first`` to ``last``, both included."""

    first: int
    last: int

    def __contains__(self, tick: object) -> bool:
        return isinstance(tick, int) and self.first <= tick <= self.last


@dataclass(frozen=True, slots=True)
class Thinning:
    """All ticks up to ``whole``, then stretches of 32, half as dense each time that the number of ticks doubles.

    So a run that ends early has been recorded well, and one that ends late to its end.
    """

    whole: int
    period: int  # ticks from one stretch to the next, right after ``whole``

    def __contains__(self, tick: object) -> bool:
        assert isinstance(tick, int)
        if tick <= self.whole:
            return True
        period = self.period << ((tick - 1) // self.whole).bit_length() - 1
        return tick % period < _STRETCH


def recorded_ticks(wanted: str, *, total_ticks: int, bytes_per_tick: int, max_bytes: int) -> Container[int]:
    """The ticks to record.

    Args:
        wanted: "auto" (as many as the limit allows) or "A:B".
        total_ticks: of the run.
        bytes_per_tick: of their events, roughly.
        max_bytes: of the file.
    """
    if wanted != "auto":
        return parse_ticks(wanted)
    affordable = max(_STRETCH, int(_SHARE * max_bytes / bytes_per_tick))
    if total_ticks <= affordable:
        return TickRange(0, total_ticks + 1)
    whole = max(_STRETCH, affordable // 2)
    octaves = ceil(log2(total_ticks / whole))
    # Each octave begins with as many ticks as all before it; together they get the other half.
    return Thinning(whole, max(_STRETCH, ceil(_STRETCH * whole * octaves / (affordable - whole))))


def parse_ticks(text: str) -> TickRange:
    """``100:200``: ticks 100 to 200.

    Raises:
        ConfigError: not two numbers in order.
    """
    found = re.fullmatch(r"([\d_]+):([\d_]+)", text)
    if not found or int(found[1]) > int(found[2]):
        raise ConfigError(f"trace_ticks={text!r} must be auto or FIRST:LAST, such as 100:200")
    return TickRange(int(found[1]), int(found[2]))

"""Which ticks are recorded."""

import pytest

from unilab.errors import ConfigError
from unilab.telemetry.trace_ticks import TickRange, parse_ticks, recorded_ticks

MB = 10**6


def test_a_range_includes_both_ends():
    ticks = parse_ticks("100:200")

    assert [tick in ticks for tick in (0, 99, 100, 200, 201)] == [False, False, True, True, False]


@pytest.mark.parametrize("text", ["", "100", "200:100", "-1:5", "a:b", "1:2:3", "all"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="FIRST:LAST"):
        parse_ticks(text)


def test_a_run_that_fits_is_recorded_whole():
    ticks = recorded_ticks("auto", total_ticks=1000, bytes_per_tick=1000, max_bytes=2 * MB)

    assert ticks == TickRange(0, 1001)


@pytest.mark.parametrize("total", [2_000, 10_000, 150_000, 3_000_000])
def test_a_long_run_is_thinned_to_its_share_of_the_limit_and_covered_to_its_end(total):
    affordable = int(0.8 * 1600)
    ticks = recorded_ticks("auto", total_ticks=total, bytes_per_tick=1000, max_bytes=int(1.6 * MB))
    recorded = [tick for tick in range(1, total + 1) if tick in ticks]

    assert recorded[: affordable // 2] == list(range(1, affordable // 2 + 1))
    assert len(recorded) <= 1.1 * affordable + 64
    assert recorded[-1] > total / 3
    half_way = [tick for tick in recorded if tick <= total // 2]
    assert len(half_way) < len(recorded) or total > 100_000


def test_ticks_are_recorded_in_stretches():
    ticks = recorded_ticks("auto", total_ticks=100_000, bytes_per_tick=1000, max_bytes=2 * MB)
    later = [tick for tick in range(10_000, 100_001) if tick in ticks]
    starts = [tick for tick in later if tick - 1 not in ticks]

    assert len(later) == pytest.approx(32 * len(starts), abs=32)

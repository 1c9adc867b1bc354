"""Counters are named int64 values, one cache line each."""

import pytest

from unilab.errors import BlockFreed
from unilab.shm import Counters


@pytest.fixture
def counters():
    counters = Counters(["granted", "rounds", "finished"])
    yield counters
    counters.free()


def test_a_counter_starts_at_zero_and_keeps_what_it_was_set_to(counters):
    assert [counters[name] for name in ("granted", "rounds", "finished")] == [0, 0, 0]

    counters["granted"] = 3
    counters["finished"] = -1

    assert [counters[name] for name in ("granted", "rounds", "finished")] == [3, 0, -1]


def test_a_counter_holds_all_of_int64_and_reads_as_int(counters):
    counters["rounds"] = 2**63 - 1

    assert counters["rounds"] == 2**63 - 1
    assert type(counters["rounds"]) is int
    counters["rounds"] += -(2**63)
    assert counters["rounds"] == -1


def test_no_two_counters_share_a_cache_line(counters):
    places = []
    for name in ("granted", "rounds", "finished"):
        counters[name] = 7
        (place,) = (counters._arrays.values == 7).nonzero()[0]
        places.append(counters._arrays.values.ctypes.data + 8 * place)
        counters[name] = 0

    lines = [place // 64 for place in places]
    assert len(set(lines)) == 3
    assert all(place % 8 == 0 for place in places)


def test_a_name_that_was_not_declared_is_refused(counters):
    with pytest.raises(KeyError, match="grnated"):
        _ = counters["grnated"]
    with pytest.raises(KeyError, match="grnated"):
        counters["grnated"] = 1


def test_a_freed_counter_says_so(counters):
    counters.free()

    with pytest.raises(BlockFreed, match="counters"):
        _ = counters["granted"]
    with pytest.raises(BlockFreed, match="counters"):
        counters["granted"] = 1
    counters.free()

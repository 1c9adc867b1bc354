"""Segments hold rows as they were, are few, and are written again only while they are small."""

import hashlib
import io
import itertools
import math

import numpy as np
import pytest
from tape import WIDTH, Tape

from unilab.replay import segments
from unilab.replay.segments import Segment, plan_segments, read_rows, record, rows_of, segment_name, write_rows


def segment(start, stop):
    return Segment(start, stop, "", (0, 0, 0))


def have(*bounds):
    return [segment(start, stop) for start, stop in itertools.pairwise(bounds)]


# ------------------------------------------------------------ which to take over


def test_without_segments_everything_is_written():
    assert plan_segments([], 3, 9) == ([], 3)


def test_large_segments_are_taken_over_and_the_new_rows_written():
    assert plan_segments(have(0, 8, 12), 0, 14) == (have(0, 8, 12), 12)


def test_segments_less_than_twice_as_large_are_written_again_with_the_new_rows():
    assert plan_segments(have(0, 16, 20, 22), 0, 24) == (have(0, 16), 16)  # 2 < 2 * 2, 4 < 2 * 4, not 16 < 2 * 8
    assert plan_segments(have(0, 7, 10), 0, 12) == ([], 0)


def test_old_rows_are_dropped_by_whole_segments():
    assert plan_segments(have(0, 80, 120), 79, 121) == (have(0, 80, 120), 120)
    assert plan_segments(have(0, 80, 120), 80, 121) == (have(80, 120), 120)


def test_rows_that_may_be_overwritten_are_not_written_again():
    assert plan_segments(have(0, 80), 70, 160) == ([], 70)


def test_no_new_rows_need_no_new_segment():
    assert plan_segments(have(0, 8, 12), 0, 12) == (have(0, 8, 12), 12)


@pytest.mark.parametrize(("low", "stop"), [(3, 20), (5, 9), (12, 12), (30, 40)])
def test_segments_that_do_not_reach_the_rows_are_not_taken_over(low, stop):
    assert plan_segments(have(5, 12), low, stop) == ([], low)


@pytest.mark.parametrize(
    "increments",
    [[7] * 500, list(range(600, 100, -1)), list(np.random.default_rng(3).integers(1, 300, 500))],
    ids=["equal", "falling", "random"],
)
@pytest.mark.parametrize("capacity", [1_000, 10**9])
def test_500_saves_leave_at_most_log_n_segments_and_write_a_row_log_n_times(increments, capacity):
    now, stop, written = [], 0, 0
    for increment in increments:
        stop += int(increment)
        low = max(0, stop - capacity)
        kept, fresh = plan_segments(now, low, stop)
        now = [*kept, segment(fresh, stop)]
        written += stop - fresh

        assert now[0].start <= low
        assert [one.stop for one in now[:-1]] == [one.start for one in now[1:]]
        assert all(left.rows >= 2 * right.rows for left, right in itertools.pairwise(now))
        assert len(now) <= 1 + math.log2(stop)
    assert written <= stop * (1 + math.log2(500))


# ------------------------------------------------------------ what is in them


def written(tape, start, stop, copied=lambda row: None):
    sink = io.BytesIO()
    write_rows(sink, tape.ring, start, stop, copied)
    return sink.getvalue()


@pytest.fixture
def small_chunks(monkeypatch):
    """Three rows at a time."""
    monkeypatch.setattr(segments, "_CHUNK", 3 * record(WIDTH).itemsize)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("start", "stop"), [(7, 17), (8, 9), (9, 11), (10, 17), (17, 17)])
def test_a_segment_is_one_record_a_row_also_where_the_ring_wraps(start, stop):
    tape = Tape(10).append(4).append(9).append(4)
    records = np.frombuffer(written(tape, start, stop), record(WIDTH))

    assert np.array_equal(records["row"], tape.rows[start:stop])
    assert np.array_equal(records["version"], tape.versions[start:stop])


def test_a_record_is_float32s_then_the_version_little_endian():
    tape = Tape(10).append(2)

    assert written(tape, 1, 2) == np.arange(8, 16, dtype="<f4").tobytes() + (1).to_bytes(8, "little")


@pytest.mark.usefixtures("small_chunks")
def test_who_writes_says_which_row_is_next():
    rows = []
    written(Tape(10).append(10), 1, 9, rows.append)

    assert rows == [4, 7, 9]


@pytest.mark.usefixtures("small_chunks")
def test_a_row_may_be_overwritten_once_it_was_passed():
    tape, fresh = Tape(10).append(10), Tape(10).append(10)

    def overwrite(row):
        tape.append(row - (tape.stop - 10))

    assert written(tape, 0, 10, overwrite) == written(fresh, 0, 10)


@pytest.fixture
def saved(tmp_path):
    tape = Tape(10).append(8)
    path = tmp_path / segment_name(0, 8)
    path.write_bytes(written(tape, 0, 8))
    return path, tape


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.usefixtures("small_chunks")
def test_what_is_read_is_what_was_written(saved):
    path, tape = saved
    parts = [(rows.copy(), versions.copy()) for rows, versions in read_rows(path, WIDTH, sha256_of(path))]

    assert [len(rows) for rows, _ in parts] == [3, 3, 2]
    assert np.array_equal(np.concatenate([rows for rows, _ in parts]), tape.rows)
    assert np.array_equal(np.concatenate([versions for _, versions in parts]), tape.versions)


def test_a_byte_that_changed_is_found_while_reading(saved):
    path, _ = saved
    sha256, content = sha256_of(path), bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)

    with pytest.raises(ValueError, match="checksum"):
        list(read_rows(path, WIDTH, sha256))


def test_the_name_says_the_rows():
    assert segment_name(7, 1200) == "replay_000000000007_000000001200.rows"
    assert rows_of(segment_name(7, 1200)) == (0, 7, 1200)
    assert rows_of(segment_name(7, 1200, ring=3)) == (3, 7, 1200)
    assert rows_of("state.pt") is None
    assert rows_of(".replay_000000000007_000000001200.rows.tmp") is None

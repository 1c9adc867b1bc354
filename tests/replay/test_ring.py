"""The ring against a numpy oracle; row r stores the number r in every column, shifted by the column."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from unilab.errors import BlockFreed
from unilab.replay import Ring, RowLayout
from unilab.replay.ring import UNWRITTEN, row_spans
from unilab.shm import Arrays

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
CRITIC = RowLayout(obs_dim=2, action_dim=1, critic_dim=3)
CAPACITY = 5


@dataclass
class Step:
    """As much of an env step as an append reads."""

    next_obs: dict = field(default_factory=dict)
    reward: np.ndarray = None
    terminated: np.ndarray = None
    truncated: np.ndarray = None


def expected_rows(start, stop, layout=LAYOUT):
    """Row r is r + 100 * column; the flags are r % 2 and r % 3 == 0."""
    numbers = np.arange(start, stop)
    rows = numbers[:, None] + 100.0 * np.arange(layout.width)
    rows[:, layout.columns["terminated"].start] = numbers % 2
    rows[:, layout.columns["truncated"].start] = numbers % 3 == 0
    return rows.astype(np.float32)


def append(ring, count, version=0, layout=LAYOUT):
    """Append rows with the numbers that come next."""
    rows, c = expected_rows(ring.cursor, ring.cursor + count, layout), layout.columns
    obs, next_obs = {"obs": rows[:, c["obs"]]}, {"obs": rows[:, c["next_obs"]]}
    if layout.critic_dim:
        obs["critic"], next_obs["critic"] = rows[:, c["critic_obs"]], rows[:, c["next_critic_obs"]]
    step = Step(
        next_obs=next_obs,
        reward=rows[:, c["reward"].start],
        terminated=rows[:, c["terminated"].start] == 1,
        truncated=rows[:, c["truncated"].start] == 1,
    )
    ring.append(obs, rows[:, c["action"]], step, policy_version=version)


def gathered(ring, numbers, layout=LAYOUT):
    numbers = np.asarray(numbers, np.int64)
    out = np.empty((len(numbers), layout.width), np.float32)
    ring.gather(numbers, out)
    return out, ring.versions_of(numbers)


@pytest.fixture(params=["memfd", "unlinked_file"])
def ring(request):
    ring = Ring(CAPACITY, LAYOUT, backing=request.param)
    yield ring
    ring.free()


def test_an_append_that_fits_is_one_span():
    assert row_spans(cursor=11, count=3, capacity=5) == [slice(1, 4)]


def test_an_append_that_wraps_fills_the_tail_then_the_head():
    spans = row_spans(cursor=13, count=3, capacity=5)

    assert spans == [slice(3, 5), slice(0, 1)]


def test_an_append_that_ends_at_the_edge_has_no_head():
    assert row_spans(cursor=13, count=2, capacity=5) == [slice(3, 5)]
    assert row_spans(cursor=10, count=5, capacity=5) == [slice(0, 5)]


def test_no_rows_are_no_spans():
    assert row_spans(cursor=4, count=0, capacity=5) == []


def test_spans_name_each_cell_of_the_rows_once_and_in_order():
    for cursor in range(13):
        for count in range(6):
            cells = [cell for span in row_spans(cursor, count, 5) for cell in range(span.start, span.stop)]
            assert cells == [row % 5 for row in range(cursor, cursor + count)]


def test_memory_is_two_counters_versions_and_rows_each_padded_to_a_cache_line():
    # cursor and first row, 8 -> 64 each; 5 int64 = 40 -> 64; 5 rows of 9 float32 = 180 -> 192
    assert Ring.required_bytes(5, LAYOUT) == 2 * 64 + 64 + 192


def test_a_fresh_ring_is_empty_and_poisoned(ring):
    rows, versions = gathered(ring, range(CAPACITY))

    assert ring.cursor == 0
    assert np.isnan(rows).all()
    assert (versions == UNWRITTEN).all()


def test_cells_that_were_never_written_stay_poisoned_beside_those_that_were(ring):
    append(ring, 3)
    rows, versions = gathered(ring, range(CAPACITY))

    assert not np.isnan(rows[:3]).any()
    assert np.isnan(rows[3:]).all()
    assert (versions[3:] == UNWRITTEN).all()


def test_every_column_of_an_appended_row_is_where_the_layout_says(ring):
    append(ring, 2)

    # row 1: obs 1, 101; action 201; reward 301; next_obs 401, 501; terminated; not truncated
    assert gathered(ring, [1])[0].tolist() == [[1, 101, 201, 301, 401, 501, 1, 0]]
    # row 0: not terminated; truncated
    assert gathered(ring, [0])[0].tolist() == [[0, 100, 200, 300, 400, 500, 0, 1]]


def test_critic_columns_are_stored_where_the_env_has_that_group():
    ring = Ring(CAPACITY, CRITIC)
    append(ring, 4, layout=CRITIC)
    append(ring, 4, layout=CRITIC)

    rows, _ = gathered(ring, range(3, 8), CRITIC)
    assert np.array_equal(rows, expected_rows(3, 8, CRITIC))
    assert rows[4, CRITIC.columns["critic_obs"]].tolist() == [807, 907, 1007]
    assert rows[4, CRITIC.columns["next_critic_obs"]].tolist() == [1107, 1207, 1307]
    ring.free()


@pytest.mark.parametrize("counts", [[1] * 23, [2] * 12, [3] * 9, [5] * 5, [4, 1, 5, 2, 0, 3, 5, 5]])
def test_what_is_gathered_equals_a_numpy_oracle_however_the_ring_has_wrapped(ring, counts):
    oracle_rows = np.full((CAPACITY, LAYOUT.width), np.nan, np.float32)
    oracle_versions = np.full(CAPACITY, UNWRITTEN)
    for version, count in enumerate(counts):
        start = ring.cursor
        append(ring, count, version)
        for row in range(start, start + count):
            oracle_rows[row % CAPACITY] = expected_rows(row, row + 1)[0]
            oracle_versions[row % CAPACITY] = version

        assert ring.cursor == start + count
        numbers = np.arange(max(0, ring.cursor - CAPACITY), ring.cursor)
        rows, versions = gathered(ring, numbers)
        assert np.array_equal(rows, oracle_rows[numbers % CAPACITY])
        assert np.array_equal(rows, expected_rows(numbers[0], ring.cursor)) if len(numbers) else True
        assert np.array_equal(versions, oracle_versions[numbers % CAPACITY])


def test_rows_are_gathered_in_the_order_asked_for_and_as_often(ring):
    append(ring, 4)
    append(ring, 4, version=1)

    rows, versions = gathered(ring, [6, 3, 6, 4])

    assert rows[:, 0].tolist() == [6, 3, 6, 4]
    assert versions.tolist() == [1, 0, 1, 1]


def test_the_cursor_moves_last(ring):
    class Watching(dict):
        """Observations that look at the cursor while they are read."""

        def __getitem__(self, name):
            seen.append(ring.cursor)
            return super().__getitem__(name)

    append(ring, 4)
    seen, zeros = [], np.zeros((3, 2), np.float32)
    flags = np.zeros(3, np.bool_)
    step = Step(Watching(obs=zeros), zeros[:, 0], flags, flags)
    ring.append(Watching(obs=zeros), zeros[:, :1], step, policy_version=0)  # wraps: two spans

    assert seen == [4, 4, 4, 4]
    assert ring.cursor == 7


def test_an_append_that_fails_half_way_appends_nothing(ring):
    append(ring, 2)
    zeros, flags = np.zeros((2, 2), np.float32), np.zeros(2, np.bool_)

    with pytest.raises(KeyError):
        ring.append({"obs": zeros}, zeros[:, :1], Step({}, zeros[:, 0], flags, flags), policy_version=0)

    assert ring.cursor == 2


def test_an_append_of_exactly_one_lap_replaces_everything(ring):
    append(ring, 3)
    append(ring, CAPACITY)

    assert gathered(ring, range(3, 8))[0][:, 0].tolist() == [3, 4, 5, 6, 7]


def test_an_append_of_more_than_a_lap_is_refused_and_changes_nothing(ring):
    append(ring, 2)
    before = ring.digest()

    with pytest.raises(ValueError, match="an append of 6 rows laps a ring of 5"):
        append(ring, 6)

    assert ring.digest() == before


def test_the_ring_keeps_its_own_copy_of_what_is_appended(ring):
    obs, action = np.full((1, 2), 1.0, np.float32), np.full((1, 1), 2.0, np.float32)
    reward, flags = np.full(1, 3.0, np.float32), np.zeros(1, np.bool_)
    ring.append({"obs": obs}, action, Step({"obs": obs}, reward, flags, flags), policy_version=0)

    obs[:], action[:], reward[:], flags[:] = 9, 9, 9, True

    assert gathered(ring, [0])[0].tolist() == [[1, 1, 2, 3, 1, 1, 0, 0]]


def test_reading_gives_one_view_within_a_lap_and_two_across_its_edge(ring):
    append(ring, 4)
    append(ring, 4)  # rows 3 to 7; 3 and 4 lie in the tail

    assert [part[:, 0].tolist() for part in ring.read(5, 8)] == [[5, 6, 7]]
    assert [part[:, 0].tolist() for part in ring.read(3, 7)] == [[3, 4], [5, 6]]
    assert list(ring.read(6, 6)) == []


def test_what_is_read_cannot_be_written(ring):
    append(ring, 2)
    (view,) = ring.read(0, 2)

    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1.0


@pytest.mark.parametrize("rows", [(2, 5), (7, 9), (5, 4), (-1, 4), (8, 9)])
def test_a_range_that_the_ring_does_not_hold_is_refused(ring, rows):
    append(ring, 4)
    append(ring, 4)  # holds [3, 8)

    for read in (lambda: list(ring.read(*rows)), lambda: ring.versions(*rows)):
        with pytest.raises(ValueError, match=rf"rows \[{rows[0]}, {rows[1]}\) .* holds \[3, 8\)"):
            read()


def test_versions_follow_their_rows_across_the_edge(ring):
    append(ring, 3, version=-1)
    append(ring, 3, version=7)
    append(ring, 2, version=8)  # holds [3, 8)

    assert ring.versions(3, 8).tolist() == [7, 7, 7, 8, 8]
    assert ring.versions(5, 7).tolist() == [7, 8]
    assert ring.versions(4, 4).tolist() == []
    assert ring.versions(3, 8).dtype == np.int64


def ring_with(*appends, capacity=CAPACITY):
    ring = Ring(capacity, LAYOUT)
    for count, version in appends:
        append(ring, count, version)
    return ring


def digest_of(*appends, capacity=CAPACITY):
    ring = ring_with(*appends, capacity=capacity)
    digest = ring.digest()
    ring.free()
    return digest


def test_the_digest_is_that_of_the_rows_however_they_were_appended():
    assert digest_of((3, 0), (1, 0)) == digest_of((1, 0), (3, 0)) == digest_of((4, 0))
    assert digest_of((4, 0), (4, 0)) == digest_of(*[(1, 0)] * 8)


def test_the_digest_leaves_out_what_was_overwritten_and_what_was_never_written():
    assert digest_of((3, 5), (5, 0)) == digest_of((3, 6), (5, 0))
    assert digest_of((4, 0), capacity=5) == digest_of((4, 0), capacity=50)


def test_the_digest_depends_on_rows_versions_and_cursor():
    known = {digest_of(), digest_of((4, 0)), digest_of((4, 1)), digest_of((3, 0), (1, 1)), digest_of((5, 0))}
    assert len(known) == 5

    ring = ring_with((4, 0))
    ring._shared.rows[2, 3] += 1
    assert ring.digest() not in known
    ring.free()


def test_the_digest_of_the_same_bytes_later_in_the_run_is_another():
    ring = ring_with((5, 0))
    before = ring.digest()
    ring._shared.cursor[0] += CAPACITY  # one lap later, the same bytes in the same cells

    assert ring.digest() != before
    ring.free()


def test_cursors_beyond_32_bits_still_find_their_cells(ring):
    append(ring, 4)
    start = 2**40
    ring._shared.cursor[0] = start
    append(ring, 3, version=2**33)

    rows, versions = gathered(ring, range(start, start + 3))
    assert rows[:, 0].tolist() == [float(np.float32(start + i)) for i in range(3)]
    assert versions.tolist() == [2**33] * 3
    assert [start % CAPACITY, ring.cursor] == [1, start + 3]
    assert ring._shared.versions.tolist() == [0, 2**33, 2**33, 2**33, UNWRITTEN]


def test_a_ring_that_arrives_in_a_process_is_the_same_ring(ring):
    other = Ring.__new__(Ring)
    state = dict(ring.__dict__)
    other.__dict__.update(state | {"_shared": Arrays.__new__(Arrays)})
    other._shared.__setstate__(state["_shared"].__getstate__())
    append(ring, 3)

    assert (other.cursor, other.capacity, other.layout) == (3, CAPACITY, LAYOUT)
    assert other.digest() == ring.digest()


def test_a_freed_ring_says_so_also_while_a_view_lives(ring):
    append(ring, 3)
    (view,) = ring.read(0, 3)
    ring.free()

    for use in (lambda: ring.cursor, lambda: append(ring, 1), ring.digest, lambda: gathered(ring, [0])):
        with pytest.raises(BlockFreed, match="ring"):
            use()
    assert view[:, 0].tolist() == [0, 1, 2]
    ring.free()


# Transitions that are not fit to be stored


def append_numbers(ring, *numbers, version=0, repeat=None):
    """Append rows of these numbers, one per env."""
    values = np.float32(numbers)[:, None]
    step = Step(
        next_obs={"obs": np.repeat(values, 2, axis=1)},
        reward=values[:, 0],
        terminated=np.zeros(len(values), bool),
        truncated=np.zeros(len(values), bool),
    )
    repeat = None if repeat is None else np.array(repeat, bool)
    ring.append({"obs": np.repeat(values, 2, axis=1)}, values, step, policy_version=version, repeat=repeat)


def rewards(ring, start, stop):
    return np.concatenate([rows[:, LAYOUT.columns["reward"].start] for rows in ring.read(start, stop)]).tolist()


def test_a_transition_that_is_not_fit_is_replaced_by_the_one_before_of_the_same_env(ring):
    append_numbers(ring, 10, 20, version=3)
    append_numbers(ring, 11, np.nan, version=4, repeat=[0, 1])
    append_numbers(ring, np.nan, np.nan, version=5, repeat=[1, 1])

    assert ring.cursor == 6
    assert rewards(ring, 1, 6) == [20, 11, 20, 11, 20]
    assert ring.versions(1, 6).tolist() == [3, 4, 3, 4, 3]
    assert all(np.isfinite(rows).all() for rows in ring.read(1, 6))


def test_it_is_replaced_also_where_the_append_overwrites_the_one_before(ring):
    append_numbers(ring, 1, 2, 3, 4, 5, version=1)
    append_numbers(ring, 6, 7, np.nan, 9, np.nan, version=2, repeat=[0, 0, 1, 0, 1])

    assert rewards(ring, 5, 10) == [6, 7, 3, 9, 5]
    assert ring.versions(5, 10).tolist() == [2, 2, 1, 2, 1]


def test_what_is_not_there_cannot_be_repeated(ring):
    with pytest.raises(ValueError, match="cannot be repeated"):
        append_numbers(ring, 1, np.nan, repeat=[0, 1])
    assert ring.cursor == 0

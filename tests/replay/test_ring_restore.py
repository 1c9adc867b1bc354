"""A ring that is restored holds the rows of another one, under their own numbers."""

import numpy as np
import pytest
from tape import LAYOUT, WIDTH, Tape

from unilab.replay import Ring
from unilab.replay.ring import UNWRITTEN


def restored(tape, low, capacity, pieces=2):
    ring = Ring(capacity, LAYOUT)
    for numbers in np.array_split(np.arange(low, tape.stop), pieces):
        ring.restore(int(numbers[0]), tape.rows[numbers], tape.versions[numbers])
    return ring


@pytest.mark.parametrize("capacity", [10, 11, 13, 64])
def test_rows_keep_their_numbers_in_a_ring_of_any_capacity_that_holds_them(capacity):
    tape = Tape(10).append(10).append(7)

    tape.holds(restored(tape, 7, capacity), 7, 17)


def test_a_full_ring_that_is_restored_has_the_same_digest():
    tape = Tape(10).append(10).append(7)

    assert restored(tape, 7, 10).digest() == tape.ring.digest()


def test_appends_go_on_where_the_rows_end():
    tape = Tape(10).append(10).append(7)
    other = Tape(10)
    other.ring, other.rows, other.versions, other._appends = restored(tape, 9, 10), tape.rows, tape.versions, 2

    other.append(1)
    other.holds(other.ring, 9, 18)
    other.append(6)
    other.holds(other.ring, 14, 24)


def test_rows_that_were_not_restored_are_not_in_the_ring():
    tape = Tape(10).append(10).append(7)
    ring = restored(tape, 12, 10)

    with pytest.raises(ValueError, match=r"rows \[11, 17\) are not in the ring, which holds \[12, 17\)"):
        ring.read(11, 17)
    assert ring.versions_of(np.array([11]))[0] == UNWRITTEN


def test_no_rows_at_all_still_set_the_cursor():
    ring = Ring(10, LAYOUT)
    ring.restore(17, np.empty((0, WIDTH), np.float32), np.empty(0, np.int64))

    assert (ring.oldest, ring.cursor) == (17, 17)


def test_a_gap_is_refused():
    tape = Tape(10).append(9)
    ring = restored(tape, 2, 10)

    with pytest.raises(ValueError, match="1 rows from 10 on do not follow row 9"):
        ring.restore(10, tape.rows[:1], tape.versions[:1])

"""A slot moves FREE -> PACKING -> COPYING -> READY -> IN_USE -> FREE and no other way."""

from itertools import pairwise, product

import pytest

from unilab.transfer import Slot, SlotState

CYCLE = [
    SlotState.FREE,
    SlotState.PACKING,
    SlotState.COPYING,
    SlotState.READY,
    SlotState.IN_USE,
    SlotState.FREE,
]
LEGAL = set(pairwise(CYCLE))


def test_a_slot_starts_free_and_empty():
    slot = Slot(1)

    assert (slot.index, slot.state, slot.packed) == (1, SlotState.FREE, None)


def test_the_legal_cycle_goes_round_and_round():
    slot = Slot(0)
    for state in CYCLE[1:] * 3:
        slot.advance(state)

    assert slot.state is SlotState.FREE


@pytest.mark.parametrize(("start", "to"), sorted(set(product(SlotState, repeat=2)) - LEGAL, key=str))
def test_every_other_move_is_a_bug_of_ours(start, to):
    slot = Slot(3)
    slot.state = start

    with pytest.raises(AssertionError, match="slot 3 cannot go from"):
        slot.advance(to)
    assert slot.state is start

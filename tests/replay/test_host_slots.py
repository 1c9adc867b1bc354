"""Batch t lies in slot t % slots, as ``pack`` makes it, and says what it is; also in another process."""

import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

from unilab.errors import BlockFreed
from unilab.replay import HostSlots, Ring, RowLayout, UniformSampler, pack
from unilab.replay.pack import AGE_SAMPLE

LAYOUT = RowLayout(obs_dim=1, action_dim=1)


class Step:
    def __init__(self, values):
        self.next_obs = {"obs": values}
        self.reward = values[:, 0]
        self.terminated = self.truncated = np.zeros(len(values), np.bool_)


@pytest.fixture
def ring():
    """Row i holds i; rows below 20 came from version 4, the others from version 9."""
    ring = Ring(40, LAYOUT)
    for start, version in ((0, 4), (20, 9)):
        values = np.arange(start, start + 20, dtype=np.float32)[:, None]
        ring.append({"obs": values}, values, Step(values), policy_version=version)
    yield ring
    ring.free()


@pytest.fixture
def slots():
    slots = HostSlots(2, 30, LAYOUT)
    yield slots
    slots.free()


@pytest.fixture
def sampler():
    return UniformSampler(np.random.SeedSequence(1))


def report(packed):
    return packed.tick, packed.rows, packed.watermark, packed.versions.tolist()


def test_a_slot_holds_what_pack_gives(ring, slots, sampler):
    slots.pack([ring], sampler, tick=7, rows=12, domain=[(3, 35)])
    alone = np.empty((12, LAYOUT.width), np.float32)
    expected = pack([ring], sampler, alone, tick=7, domain=[(3, 35)])

    assert slots.host[1, :12].tolist() == alone.tolist()
    assert report(slots.packed(7)) == report(expected)
    assert len(expected.versions) == AGE_SAMPLE


def test_a_batch_leaves_the_other_slot_and_the_rest_of_its_own_alone(ring, slots, sampler):
    slots.host[:] = -1.0
    slots.pack([ring], sampler, tick=4, rows=12, domain=[(0, 20)])

    assert (slots.host[1] == -1).all()
    assert (slots.host[0, 12:] == -1).all()
    assert (slots.host[0, :12] >= 0).all()


def test_two_batches_lie_side_by_side(ring, slots, sampler):
    slots.pack([ring], sampler, tick=4, rows=12, domain=[(0, 20)])
    slots.pack([ring], sampler, tick=5, rows=9, domain=[(20, 40)])

    assert report(slots.packed(4)) == (4, 12, 20, [4] * AGE_SAMPLE)
    assert report(slots.packed(5)) == (5, 9, 40, [9] * AGE_SAMPLE)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_small_batch_has_as_many_versions_as_rows(ring, slots, sampler, rows):
    slots.pack([ring], sampler, tick=2, rows=30, domain=[(0, 20)])
    slots.pack([ring], sampler, tick=4, rows=rows, domain=[(20, 40)])

    assert report(slots.packed(4)) == (4, rows, 40, [9] * rows)


def test_what_was_reported_stays_when_the_slot_is_packed_again(ring, slots, sampler):
    slots.pack([ring], sampler, tick=2, rows=12, domain=[(0, 20)])
    packed = slots.packed(2)
    slots.pack([ring], sampler, tick=4, rows=12, domain=[(20, 40)])

    assert report(packed) == (2, 12, 20, [4] * AGE_SAMPLE)


def test_a_batch_that_is_not_there_is_a_bug_of_ours(ring, slots, sampler):
    slots.pack([ring], sampler, tick=4, rows=12, domain=[(0, 20)])

    with pytest.raises(AssertionError, match="the slot of batch 6 holds batch 4"):
        slots.packed(6)


def test_bytes_by_hand():
    # host: 2 x 30 rows x 6 floats x 4 = 1440 -> 1472; report: 2 x (3 + 8) x 8 = 176 -> 192
    assert HostSlots.required_bytes(2, 30, LAYOUT) == 1472 + 192


def test_freed_slots_say_so(slots):
    slots.free()

    with pytest.raises(BlockFreed, match="host slots"):
        slots.packed(1)


def test_a_copy_in_another_process_is_the_same_memory(ring, slots, sampler):
    theirs = pickle.loads(ForkingPickler.dumps(slots))
    theirs.pack([ring], sampler, tick=3, rows=4, domain=[(20, 40)])

    assert report(slots.packed(3)) == (3, 4, 40, [9] * 4)
    theirs.free()

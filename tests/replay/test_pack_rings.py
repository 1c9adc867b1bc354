"""A batch out of several rings: every row of every range as likely as any other, and the same whoever packs."""

import numpy as np
import pytest
from tape import LAYOUT, WIDTH, append_rows

from unilab.replay import HostSlots, UniformSampler, pack
from unilab.replay.pack import AGE_SAMPLE, draw, pack_own
from unilab.replay.ring import open_rings

DOMAIN = [(13, 20), (0, 3), (5, 25)]  # of 30 rows, in a ring that has wrapped and two that have not


def say(ring, number):
    """What the rows of these numbers hold, [n, WIDTH]."""
    return np.repeat(1000.0 * ring + np.asarray(number)[:, None], WIDTH, 1).astype(np.float32)


@pytest.fixture
def rings():
    """Row r of ring i holds 1000 i + r and has version 100 i + r // 5."""
    rings = open_rings([8, 5, 40], LAYOUT)
    for ring, rows in zip(rings, (20, 3, 25), strict=True):
        for start in range(0, rows, 5):
            numbers = np.arange(start, min(start + 5, rows))
            append_rows(ring, say(ring.index, numbers), 100 * ring.index + start // 5)
    yield rings
    rings[0].free()


@pytest.fixture
def sampler():
    return UniformSampler(np.random.SeedSequence(3))


def batch(rows):
    return np.full((rows, WIDTH), -1.0, np.float32)


def test_the_rows_of_a_batch_are_the_drawn_ones_with_their_versions(rings, sampler):
    out = batch(200)
    packed = pack(rings, sampler, out, tick=4, domain=DOMAIN)
    owners, numbers = draw(sampler, 4, DOMAIN, 200)

    assert (out == 1000 * owners[:, None] + numbers[:, None]).all()
    assert {(i, n) for i, n in zip(owners.tolist(), numbers.tolist(), strict=True)} == {
        (i, n) for i, (low, high) in enumerate(DOMAIN) for n in range(low, high)
    }
    assert packed.versions.tolist() == (100 * owners + numbers // 5)[:AGE_SAMPLE].tolist()
    assert (packed.tick, packed.rows, packed.watermark) == (4, 200, 20 + 3 + 25)


def test_every_row_is_as_likely_as_any_other_whatever_the_fill_of_its_ring(sampler):
    counts = np.zeros((3, 25))
    for tick in range(300):
        np.add.at(counts, draw(sampler, tick, DOMAIN, 100), 1)
    seen = counts[counts > 0]

    # 29 degrees of freedom: mean 29, standard deviation sqrt(58) = 7.6; four of them off less than once in 10,000.
    assert len(seen) == 30
    assert 29 - 4 * 7.6 < ((seen - 1000) ** 2 / 1000).sum() < 29 + 4 * 7.6


def test_what_each_packs_of_its_own_ring_is_together_what_one_packs_of_all(rings, sampler):
    whole, parts = batch(77), batch(77)
    packed = pack(rings, sampler, whole, tick=9, domain=DOMAIN)
    versions = np.full(AGE_SAMPLE, -5)
    for ring in reversed(rings):
        places, own = pack_own(ring, sampler, parts, tick=9, domain=DOMAIN)
        versions[places] = own

    assert parts.tolist() == whole.tolist()
    assert versions.tolist() == packed.versions.tolist()


def test_a_ring_packs_no_row_of_another(rings, sampler):
    out = batch(77)
    pack_own(rings[1], sampler, out, tick=9, domain=DOMAIN)
    owners, _ = draw(sampler, 9, DOMAIN, 77)

    assert ((out >= 0).all(1) == (owners == 1)).all()
    assert (out[owners == 1] >= 1000).all()


@pytest.mark.parametrize(("low", "high"), [(0, 50), (13, 14), (-7, 20), (2**40, 2**40 + 99)])
def test_one_ring_has_the_draw_of_the_sampler_alone(sampler, low, high):
    owners, numbers = draw(sampler, 2, [(low, high)], 500)

    assert not owners.any()
    assert numbers.tolist() == sampler.draw(2, low, high, 500).tolist()


def test_preloaded_rows_of_negative_numbers_are_drawn_too(sampler):
    owners, numbers = draw(sampler, 1, [(-4, 2), (-1, 0)], 400)

    assert set(numbers[owners == 0].tolist()) == set(range(-4, 2))
    assert set(numbers[owners == 1].tolist()) == {-1}


def test_an_empty_range_has_no_row_in_a_batch(sampler):
    owners, _ = draw(sampler, 1, [(3, 3), (0, 5), (7, 7)], 100)

    assert set(owners.tolist()) == {1}


def test_packers_of_one_slot_report_one_batch(rings, sampler):
    shared, alone = HostSlots(2, 30, LAYOUT, packers=3), HostSlots(2, 30, LAYOUT)
    for ring in rings:
        shared.pack_own(ring, sampler, tick=7, rows=12, domain=DOMAIN)
    alone.pack(rings, sampler, tick=7, rows=12, domain=DOMAIN)
    ours, theirs = shared.packed(7), alone.packed(7)

    assert shared.host[1, :12].tolist() == alone.host[1, :12].tolist()
    assert (ours.tick, ours.rows, ours.watermark) == (theirs.tick, theirs.rows, theirs.watermark)
    assert ours.versions.tolist() == theirs.versions.tolist()
    for slots in (shared, alone):
        slots.free()


def test_a_slot_with_parts_of_two_batches_is_a_bug_of_ours(rings, sampler):
    slots = HostSlots(2, 30, LAYOUT, packers=3)
    for ring, tick in zip(rings, (7, 7, 9), strict=True):
        slots.pack_own(ring, sampler, tick=tick, rows=12, domain=DOMAIN)

    with pytest.raises(AssertionError, match="the slot of batch 7 has parts of several"):
        slots.packed(7)
    slots.free()

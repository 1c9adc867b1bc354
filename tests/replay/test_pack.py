"""A pack is a draw and a gather, straight into the slot; what it reports is worked out by hand."""

import numpy as np
import pytest

from unilab.replay import Ring, RowLayout, UniformSampler, pack
from unilab.replay.pack import AGE_SAMPLE
from unilab.replay.ring import RANDOM_POLICY

LAYOUT = RowLayout(obs_dim=1, action_dim=1)


class Step:
    def __init__(self, values):
        self.next_obs = {"obs": values}
        self.reward = values[:, 0]
        self.terminated = self.truncated = np.zeros(len(values), np.bool_)


def append(ring, numbers, version):
    values = np.asarray(numbers, np.float32)[:, None]
    ring.append({"obs": values}, values, Step(values), policy_version=version)


@pytest.fixture
def ring():
    ring = Ring(8, LAYOUT)
    append(ring, range(4), version=RANDOM_POLICY)
    append(ring, range(4, 8), version=2)
    append(ring, range(8, 10), version=5)  # holds rows 2 to 9
    yield ring
    ring.free()


@pytest.fixture
def sampler():
    return UniformSampler(np.random.SeedSequence(1))


def test_the_packed_rows_are_the_drawn_ones(ring, sampler):
    out = np.zeros((100, LAYOUT.width), np.float32)
    pack([ring], sampler, out, tick=3, domain=[(4, 9)])

    drawn = sampler.draw(3, 4, 9, 100)
    assert out[:, 0].tolist() == drawn.tolist()
    assert set(drawn.tolist()) == {4, 5, 6, 7, 8}


def test_only_the_slot_is_written(ring, sampler):
    host = np.full((6, LAYOUT.width), -1.0, np.float32)
    pack([ring], sampler, host[1:4], tick=3, domain=[(4, 9)])

    assert (host[[0, 4, 5]] == -1).all()
    assert (host[1:4] >= 0).all()


def report(packed):
    return packed.tick, packed.rows, packed.watermark, packed.versions.tolist()


def test_the_report_names_tick_rows_watermark_and_versions(ring, sampler):
    out = np.empty((5, LAYOUT.width), np.float32)

    assert report(pack([ring], sampler, out, tick=3, domain=[(8, 10)])) == (3, 5, 10, [5] * 5)
    assert report(pack([ring], sampler, out, tick=4, domain=[(4, 8)])) == (4, 5, 8, [2] * 5)
    assert report(pack([ring], sampler, out, tick=5, domain=[(2, 4)])) == (5, 5, 4, [RANDOM_POLICY] * 5)


def test_the_versions_are_those_of_the_first_rows_in_order(ring, sampler):
    out = np.empty((400, LAYOUT.width), np.float32)
    packed = pack([ring], sampler, out, tick=1, domain=[(2, 10)])

    expected = [RANDOM_POLICY if row < 4 else 2 if row < 8 else 5 for row in out[:, 0]]
    assert packed.versions.tolist() == expected[:AGE_SAMPLE]
    assert set(packed.versions.tolist()) == {RANDOM_POLICY, 2, 5}


def test_a_batch_without_rows_is_packed_all_the_same(ring, sampler):
    out = np.empty((0, LAYOUT.width), np.float32)

    assert report(pack([ring], sampler, out, tick=1, domain=[(2, 10)])) == (1, 0, 10, [])

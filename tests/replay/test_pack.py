"""A pack is a draw and a gather, straight into the slot; what it reports is worked out by hand."""

import math

import numpy as np
import pytest

from unilab.replay import Packed, Ring, RowLayout, UniformSampler, pack
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
    pack(ring, sampler, out, tick=3, low=4, high=9)

    drawn = sampler.draw(3, 4, 9, 100)
    assert out[:, 0].tolist() == drawn.tolist()
    assert set(drawn.tolist()) == {4, 5, 6, 7, 8}


def test_only_the_slot_is_written(ring, sampler):
    host = np.full((6, LAYOUT.width), -1.0, np.float32)
    pack(ring, sampler, host[1:4], tick=3, low=4, high=9)

    assert (host[[0, 4, 5]] == -1).all()
    assert (host[1:4] >= 0).all()


def test_the_report_names_tick_rows_watermark_and_mean_version(ring, sampler):
    out = np.empty((5, LAYOUT.width), np.float32)

    assert pack(ring, sampler, out, tick=3, low=8, high=10) == Packed(3, 5, 10, 5.0)
    assert pack(ring, sampler, out, tick=4, low=4, high=8) == Packed(4, 5, 8, 2.0)


def test_random_rows_count_as_version_0(ring, sampler):
    out = np.empty((5, LAYOUT.width), np.float32)

    assert pack(ring, sampler, out, tick=1, low=2, high=4).mean_version == 0.0


def test_the_mean_version_is_over_the_drawn_rows(ring, sampler):
    out = np.empty((400, LAYOUT.width), np.float32)
    packed = pack(ring, sampler, out, tick=1, low=2, high=10)

    versions = [{True: 0, False: 2}[row < 4] if row < 8 else 5 for row in out[:, 0]]
    assert packed.mean_version == pytest.approx(sum(versions) / 400)


def test_a_batch_without_rows_draws_nothing_and_has_no_mean_version(ring, sampler):
    packed = pack(ring, sampler, np.empty((0, LAYOUT.width), np.float32), tick=1, low=2, high=10)

    assert (packed.tick, packed.rows, packed.watermark) == (1, 0, 10)
    assert math.isnan(packed.mean_version)

"""A draw depends on seed, tick and domain alone, and is uniform over the domain."""

import numpy as np
import pytest
from numpy.random import SeedSequence

from unilab.replay import UniformSampler
from unilab.seeding import stream


@pytest.fixture
def sampler():
    return UniformSampler(SeedSequence(7))


def test_the_same_seed_and_tick_draw_the_same_rows_in_any_order_of_ticks(sampler):
    first = {tick: sampler.draw(tick, 0, 1000, 50).tolist() for tick in (1, 2, 3)}
    again = {tick: UniformSampler(SeedSequence(7)).draw(tick, 0, 1000, 50).tolist() for tick in (3, 1, 2)}

    assert first == again


def test_other_ticks_and_other_seeds_draw_other_rows(sampler):
    draws = [sampler.draw(tick, 0, 10**9, 8).tolist() for tick in range(20)]
    draws += [UniformSampler(SeedSequence(seed)).draw(1, 0, 10**9, 8).tolist() for seed in range(7)]
    draws += [UniformSampler(stream(7, role)).draw(1, 0, 10**9, 8).tolist() for role in ("sample", "explore")]

    assert len({tuple(draw) for draw in draws}) == len(draws)


def test_neighbouring_seeds_do_not_share_the_draws_of_neighbouring_ticks():
    draws = {
        tuple(UniformSampler(stream(seed, "sample")).draw(tick, 0, 10**9, 4).tolist())
        for seed in range(10)
        for tick in range(10)
    }

    assert len(draws) == 100


def test_a_draw_stays_inside_its_domain_and_reaches_both_ends(sampler):
    rows = sampler.draw(1, low=1005, high=1009, count=1000)

    assert set(rows.tolist()) == {1005, 1006, 1007, 1008}
    assert rows.dtype == np.int64


def test_a_domain_of_one_row_gives_that_row(sampler):
    assert sampler.draw(5, 41, 42, 3).tolist() == [41, 41, 41]


def test_row_numbers_beyond_32_bits_are_drawn(sampler):
    rows = sampler.draw(1, 2**40, 2**40 + 10, 200)

    assert rows.min() == 2**40
    assert rows.max() == 2**40 + 9


def test_an_empty_domain_is_refused(sampler):
    with pytest.raises(ValueError, match="low >= high"):
        sampler.draw(1, 5, 5, 1)


def chi_square(counts):
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


# With 99 degrees of freedom: mean 99, standard deviation sqrt(198) = 14.07; further than four of them from
# the mean less than once in 10,000 (below as well: drawing without replacement is too even); fixed seeds.
LOW, HIGH = 99 - 4 * 14.07, 99 + 4 * 14.07


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_within_a_tick_are_uniform_over_the_domain(seed):
    rows = UniformSampler(SeedSequence(seed)).draw(1, 300, 400, 20_000)

    assert LOW < chi_square(np.bincount(rows - 300, minlength=100)) < HIGH


def test_rows_over_many_ticks_are_uniform_over_the_domain(sampler):
    first_rows = np.concatenate([sampler.draw(tick, 0, 100, 2) for tick in range(5000)])

    assert LOW < chi_square(np.bincount(first_rows, minlength=100)) < HIGH

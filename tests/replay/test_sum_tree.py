"""The wide sum tree against running sums of the whole array."""

import numpy as np
import pytest

from unilab.replay.sum_tree import SumTree

SIZES = [1, 15, 16, 17, 4096, 8200, 140_000]  # a level, two, three; full and not


def brute_force(values, targets):
    return np.searchsorted(np.cumsum(values), targets, "right")


@pytest.mark.parametrize("size", SIZES)
def test_a_target_finds_the_value_whose_part_of_the_running_sum_it_falls_into(size):
    rng = np.random.default_rng(size)
    values = rng.integers(0, 4, size).astype(np.float64)  # whole numbers: sums are exact
    values[0] = 1.0
    tree = SumTree(size)
    tree.set(np.arange(size), values)

    assert tree.total == values.sum()
    targets = np.concatenate([np.arange(values.sum()), np.arange(values.sum()) + 0.5, rng.random(500) * values.sum()])
    assert np.array_equal(tree.find(targets), brute_force(values, targets))


@pytest.mark.parametrize("size", [17, 5000])
def test_values_that_change_are_found_where_they_are_now(size):
    rng = np.random.default_rng(0)
    values, tree = np.zeros(size), SumTree(size)
    for _ in range(50):
        index = np.sort(rng.choice(size, rng.integers(1, size), replace=False))
        values[index] = rng.integers(0, 3, len(index))
        tree.set(index, values[index])

        assert np.array_equal(tree.values, values)
        if values.any():
            targets = rng.random(100) * values.sum()
            assert np.array_equal(tree.find(targets), brute_force(values, targets))


def test_the_order_of_what_is_set_is_of_no_account():
    order = np.random.default_rng(0).permutation(5000)
    sorted_, shuffled = SumTree(5000), SumTree(5000)
    sorted_.set(np.arange(5000), np.arange(5000) / 7)
    shuffled.set(order, order / 7)
    targets = np.linspace(0, sorted_.total, 999, endpoint=False)

    assert sorted_.total == shuffled.total
    assert np.array_equal(sorted_.find(targets), shuffled.find(targets))


@pytest.mark.parametrize("size", SIZES)
def test_a_value_of_0_is_never_found_however_a_target_was_rounded(size):
    rng = np.random.default_rng(size)
    values = rng.random(size) * 10.0 ** rng.integers(-12, 12, size) * (rng.random(size) < 0.1)
    values[rng.integers(size)] = 1.0
    tree = SumTree(size)
    tree.set(np.arange(size), values)

    edges = np.cumsum(values)
    targets = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf), [0.0, tree.total, 2e30]])
    assert (values[tree.find(targets)] > 0).all()


def test_what_is_not_there_is_not_searched():
    with pytest.raises(ValueError, match="nothing to find"):
        SumTree(5).find(np.zeros(1))
    with pytest.raises(ValueError, match="1 or more"):
        SumTree(0)


def test_a_million_changes_leave_no_rounding_behind():
    rng, size, tree = np.random.default_rng(0), 100_000, SumTree(100_000)
    values = np.zeros(size)
    for _ in range(500):
        index = np.sort(rng.choice(size, 2000, replace=False))
        values[index] = rng.random(2000) * 10.0 ** rng.integers(-9, 9, 2000)
        tree.set(index, values[index])
    values[: size // 2] = 0.0  # what was large is gone; a sum of differences would keep its rounding
    tree.set(np.arange(size // 2), 0.0)
    values[size // 2 :] *= 1e-12
    tree.set(np.arange(size // 2, size), values[size // 2 :])

    assert tree.total == pytest.approx(float(values.astype(np.longdouble).sum()), rel=1e-12)

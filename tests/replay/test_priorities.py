"""Prioritised replay against brute force: who is drawn how often, and whose priority an error changes."""

import numpy as np
import pytest

from unilab.errors import ConfigError, NonFinite
from unilab.replay.priorities import EPSILON, PerConfig, Priorities

ALPHA = 0.6


def filled(errors, first=1000):
    """Row first + i in cell i, with the priority of errors[i]."""
    errors = np.asarray(errors, np.float64)
    cells, made = np.arange(len(errors)), Priorities(len(errors), ALPHA)
    made.add(cells, cells + first)
    made.update(cells, cells + first, errors)
    return made


def power(errors):
    return (np.abs(np.asarray(errors, np.float64)) + EPSILON) ** ALPHA


def uniforms(seed, count):
    return np.random.default_rng(seed).random(count + 1)


def test_new_rows_enter_with_the_largest_priority_so_far():
    made = Priorities(6, ALPHA)
    made.add(np.array([0, 1]), np.array([0, 1]))
    assert made.priorities.tolist() == [1, 1, 0, 0, 0, 0]

    made.update(np.array([0]), np.array([0]), np.array([-31.0]))
    made.update(np.array([0]), np.array([0]), np.array([2.0]))  # smaller again: the largest stays
    made.add(np.array([4]), np.array([4]))

    assert made.priorities == pytest.approx([power(2.0), 1, 0, 0, power(31.0), 0])
    assert made.total == pytest.approx(made.priorities.sum())


def test_an_error_of_either_sign_becomes_its_power():
    assert filled([0.0, -2.0, 3.0]).priorities == pytest.approx(power([0.0, 2.0, 3.0]), rel=1e-12)


def test_rows_that_were_dropped_are_not_drawn_any_more():
    made = filled(np.ones(40))
    made.drop(np.arange(0, 40, 2))

    cells, serials, _ = made.draw(uniforms(0, 2000), 0.5)
    assert set(cells.tolist()) == set(range(1, 40, 2))
    assert np.array_equal(serials, cells + 1000)


def test_a_draw_is_what_brute_force_over_its_parts_gives():
    errors = np.random.default_rng(1).standard_exponential(5000)
    made, u = filled(errors), uniforms(2, 64)
    cells, serials, weights = made.draw(u, 0.7)

    p = made.priorities
    targets = (np.arange(64) + u[:-1]) / 64 * p.sum()
    assert np.array_equal(np.sort(cells), np.searchsorted(np.cumsum(p), targets, "right"))
    assert np.array_equal(serials, cells + 1000)
    chance = p[cells] / p.sum()
    expected = (len(p) * chance) ** -0.7
    assert weights == pytest.approx(expected / expected.max(), rel=1e-6)
    assert weights.dtype == np.float32


def test_each_row_comes_as_often_in_a_batch_as_its_share_says_but_for_one():
    made = filled(np.random.default_rng(3).standard_exponential(50))
    share = made.priorities / made.total * 1000

    for seed in range(5):
        counts = np.bincount(made.draw(uniforms(seed, 1000), 0.5)[0], minlength=50)
        assert (np.abs(counts - share) < 2).all()  # a row covers floor(share) parts at least, and two in part


def chi_square(counts, chance):
    expected = counts.sum() * chance
    return float(((counts - expected) ** 2 / expected).sum())


# With 49 degrees of freedom: mean 49, standard deviation sqrt(98) = 9.9; see test_samplers.py.
LOW, HIGH = 49 - 4 * 9.9, 49 + 4 * 9.9


@pytest.mark.parametrize("position", [0, 3, 7])
def test_each_position_of_a_batch_gets_each_row_by_its_priority(position):
    made = filled(np.random.default_rng(3).standard_exponential(50))
    rng = np.random.default_rng(position)
    drawn = [made.draw(rng.random(9), 0.5)[0][position] for _ in range(20_000)]

    counts = np.bincount(drawn, minlength=50)
    assert LOW < chi_square(counts, made.priorities / made.total) < HIGH


@pytest.mark.parametrize("updates", [2, 8])
def test_each_minibatch_and_each_half_of_it_sees_rows_of_all_ages(updates):
    made = filled(np.ones(10_000))
    cells = made.draw(uniforms(4, updates * 256), 0.5)[0]

    for half in cells.reshape(updates * 2, 128):
        counts = np.bincount(half // 1000, minlength=10)
        assert (np.abs(counts - 12.8) < 4).all()  # of 12.8 rows in each tenth of the ring; at random 3.4 more or less


def test_weights_undo_the_bias():
    errors = np.random.default_rng(5).standard_exponential(200)
    made, values = filled(errors), np.random.default_rng(6).normal(size=200) + errors
    cells, _, weights = made.draw(uniforms(7, 200_000), 1.0)

    mean = (values[cells] * weights).sum() / weights.sum()
    assert mean == pytest.approx(values.mean(), abs=0.01)
    assert values[cells].mean() > values.mean() + 0.3, "without weights the mean is another one"


def test_a_beta_of_0_gives_weights_of_1():
    assert filled([0.0, 1.0, 9.0]).draw(uniforms(0, 30), 0.0)[2].tolist() == [1.0] * 30


def test_errors_of_rows_that_were_overwritten_meanwhile_change_nothing():
    made = filled(np.ones(100))
    cells, serials, _ = made.draw(uniforms(8, 16), 0.5)
    assert len(set(cells.tolist())) == 16
    gone = cells[[2, 5, 11]]
    made.drop(gone)
    made.add(gone, gone + 1100)  # the next lap of the ring, the same cells
    before = made.priorities.copy()

    rejected = made.update(cells, serials, np.full(16, 7.0))

    assert rejected == made.rejected == 3
    changed = np.flatnonzero(made.priorities != before)
    assert sorted(changed.tolist()) == sorted(set(cells.tolist()) - set(gone.tolist()))
    assert made.priorities[changed] == pytest.approx(power(7.0))
    assert (made.priorities[gone] == before[gone]).all()


def test_errors_of_rows_that_were_only_dropped_are_rejected_too():
    made = filled(np.ones(4))
    made.drop(np.array([1, 2]))

    assert made.update(np.array([0, 1, 2]), np.array([1000, 1001, 1002]), np.full(3, 5.0)) == 2
    assert made.update(np.array([1]), np.array([1001]), np.full(1, 5.0)) == 1
    assert made.rejected == 3
    assert made.priorities == pytest.approx([power(5.0), 0, 0, power(1.0)])


def test_an_error_that_is_rejected_does_not_count_as_the_largest():
    made = filled([1.0, 1.0])
    made.update(np.array([1]), np.array([7]), np.array([1e6]))
    made.drop(np.array([0]))
    made.add(np.array([0]), np.array([1002]))

    assert made.priorities[0] == pytest.approx(power(1.0))


def test_of_a_row_that_is_in_a_batch_twice_the_last_error_counts():
    made, rng = filled(np.ones(30)), np.random.default_rng(9)
    cells = rng.integers(0, 30, 500)
    errors = rng.standard_exponential(500)
    made.update(cells, cells + 1000, errors)

    expected = power(np.ones(30))
    for cell, error in zip(cells, errors, strict=True):
        expected[cell] = power(error)
    assert made.priorities == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_error_that_is_not_finite_is_named_and_nothing_is_stored(bad):
    made = filled(np.ones(5))
    before = made.state_dict()

    with pytest.raises(NonFinite, match=rf"TD error of row 1003 \(cell 3\) is {bad}"):
        made.update(np.array([2, 3]), np.array([1002, 1003]), np.array([4.0, bad], np.float32))

    assert all(np.array_equal(before[name], array) for name, array in made.state_dict().items())


def test_a_row_cannot_enter_where_a_later_one_lies():
    made = filled(np.ones(5))

    with pytest.raises(ValueError, match="row 1004 cannot enter cell 4, which holds row 1004"):
        made.add(np.array([3, 4]), np.array([1008, 1004]))


def test_an_empty_domain_cannot_be_drawn_from():
    with pytest.raises(ValueError, match="nothing to find"):
        Priorities(10, ALPHA).draw(uniforms(0, 4), 0.5)


def worked(rounds, seed=0, into=None):
    """A ring of 3000 cells that is overwritten, drawn from and updated; returns all draws."""
    made, rng, drawn = into or Priorities(3000, ALPHA), np.random.default_rng(seed), []
    for cursor in rounds:
        numbers = cursor * 100 + np.arange(100)
        made.drop(numbers % 3000)
        made.add(numbers % 3000, numbers)
        cells, serials, weights = made.draw(rng.random(33), 0.5)
        drawn.append((cells.tolist(), serials.tolist(), weights.tolist()))
        made.update(cells, serials, rng.standard_exponential(32).astype(np.float32))
    return made, drawn


def test_the_same_calls_give_the_same_bits():
    (one, draws), (same, again) = worked(range(60)), worked(range(60))

    assert draws == again
    assert one.total == same.total


def test_saved_and_loaded_it_goes_on_with_the_same_bits():
    one, _ = worked(range(47))
    one.update(np.array([0]), np.array([-5]), np.array([1.0]))
    loaded = Priorities(3000, ALPHA)
    loaded.load_state_dict(one.state_dict())

    assert loaded.total == one.total
    assert loaded.rejected == one.rejected == 1
    assert worked(range(47, 90), 1, one)[1] == worked(range(47, 90), 1, loaded)[1]


def test_a_saved_state_is_a_copy_and_fits_only_its_size():
    made, _ = worked(range(3))
    state = made.state_dict()
    made.drop(np.arange(3000))

    assert state["priorities"].any()
    with pytest.raises(ValueError, match="3000 cells, this run has 2999"):
        Priorities(2999, ALPHA).load_state_dict(state)


def test_a_million_errors_leave_the_total_exact():
    size, rng = 20_000, np.random.default_rng(10)
    made = filled(np.ones(size))
    for _ in range(250):
        cells = rng.integers(0, size, 4000)
        made.update(cells, cells + 1000, rng.standard_exponential(4000) * 10.0 ** rng.integers(-6, 6, 4000))

    assert made.total == pytest.approx(float(made.priorities.astype(np.longdouble).sum()), rel=1e-12)


@pytest.mark.parametrize("capacity", [100, 10_000, 1_000_000])
def test_the_memory_that_is_asked_for_is_the_memory_it_takes(capacity):
    made = Priorities(capacity, ALPHA)
    tree = made._tree
    taken = made._serials.nbytes + sum(array.nbytes for array in (*tree._sums, *tree._starts))

    assert taken == pytest.approx(Priorities.required_bytes(capacity), rel=0.05)


def test_beta_changes_evenly_and_stays_within_the_run():
    cfg = PerConfig(sampler="per", per_beta=0.4, per_beta_final=1.0)

    assert [cfg.beta(x) for x in (0.0, 0.5, 1.0, 1.5)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "per", "per_alpha": 0.0}, "per_alpha=0.0"),
        ({"sampler": "per", "per_alpha": 1.1}, "per_alpha=1.1"),
        ({"sampler": "per", "per_beta": -0.1}, "per_beta=-0.1"),
        ({"sampler": "per", "per_beta_final": float("nan")}, "per_beta_final=nan"),
        ({"per_alpha": 0.5}, "per_alpha=0.5 .* no effect"),
        ({"per_beta": 0.5}, "per_beta=0.5 .* no effect"),
        ({"per_beta_final": 0.5}, "per_beta_final=0.5 .* no effect"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options, words):
    with pytest.raises(ConfigError, match=words):
        PerConfig(**options)

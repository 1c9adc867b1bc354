import math

import pytest
import torch

from unilab.algos import categorical
from unilab.algos.categorical import Support, at_the_ends, cross_entropy, expectation, lower_mean, project, soft_reward

FIVE = Support(-2.0, 2.0, 5)  # atoms -2, -1, 0, 1, 2
FORMS = {"scattered": categorical._scattered, "dense": categorical._dense}


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """Both ways to add up, wherever the test runs."""
    monkeypatch.setattr(categorical, "_scattered", FORMS[request.param])
    return request.param


def distributions(rows: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.softmax(torch.randn(rows, count, generator=torch.Generator().manual_seed(seed)) * 2.0, -1)


def by_loops(probabilities, reward, discount, support: Support):
    """The projection as its definition reads; float64, one atom after the other."""
    step = (support.high - support.low) / (support.count - 1)
    rows = []
    for p, r, d in zip(probabilities.tolist(), reward.tolist(), discount.tolist(), strict=True):
        row = [0.0] * support.count
        for j, mass in enumerate(p):
            z = min(max(r + d * (support.low + j * step), support.low), support.high)
            position = (z - support.low) / step
            below = min(math.floor(position), support.count - 2)
            row[below] += mass * (below + 1 - position)
            row[below + 1] += mass * (position - below)
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("reward", "discount", "mass", "expected"),
    [
        pytest.param(0.0, 1.0, [0.1, 0.2, 0.3, 0.4, 0.0], [0.1, 0.2, 0.3, 0.4, 0.0], id="nothing happens"),
        pytest.param(1.0, 1.0, [0.1, 0.2, 0.3, 0.4, 0.0], [0.0, 0.1, 0.2, 0.3, 0.4], id="one atom up"),
        pytest.param(1.0, 1.0, [0.0, 0.0, 0.0, 0.25, 0.75], [0.0, 0.0, 0.0, 0.0, 1.0], id="cut off at the top"),
        pytest.param(-9.0, 1.0, [0.2, 0.2, 0.2, 0.2, 0.2], [1.0, 0.0, 0.0, 0.0, 0.0], id="cut off at the bottom"),
        pytest.param(0.25, 1.0, [0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.75, 0.25, 0.0], id="a quarter of the way"),
        pytest.param(0.0, 0.5, [0.5, 0.0, 0.0, 0.0, 0.5], [0.0, 0.5, 0.0, 0.5, 0.0], id="halved"),
        pytest.param(0.5, 0.5, [0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], id="halved and moved"),
        pytest.param(-1.5, 0.0, [0.2, 0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.0, 0.0, 0.0], id="ended: the reward alone"),
    ],
)
def test_numbers_worked_out_by_hand(form, reward, discount, mass, expected):
    moved = project(torch.tensor([mass]), torch.tensor([reward]), torch.tensor([discount]), FIVE)

    assert moved.tolist() == [pytest.approx(expected, abs=1e-7)]


@pytest.mark.parametrize("support", [FIVE, Support(-10.0, 10.0, 101), Support(-5.0, 5.0, 51), Support(0.0, 7.3, 2)])
def test_a_projection_agrees_with_its_definition_in_float64(form, support):
    p, g = distributions(64, support.count), torch.Generator().manual_seed(1)
    reward = torch.randn(64, generator=g) * support.high / 3.0
    discount = torch.rand(64, generator=g) * (torch.rand(64, generator=g) < 0.8)

    moved = project(p, reward, discount, support)

    torch.testing.assert_close(moved.double(), by_loops(p, reward, discount, support), atol=3e-6, rtol=0.0)
    torch.testing.assert_close(moved.sum(-1), torch.ones(64), atol=1e-6, rtol=0.0)


def test_each_critic_may_have_a_distribution_and_a_reward_of_its_own(form):
    p = distributions(2 * 8, 5).view(2, 8, 5)
    reward, discount = torch.randn(2, 8), torch.rand(8)

    both = project(p, reward, discount, FIVE)

    for k in range(2):
        torch.testing.assert_close(both[k], project(p[k], reward[k], discount, FIVE))


def test_the_mean_is_kept_where_nothing_is_cut_off(form):
    support = Support(-10.0, 10.0, 101)
    p, discount = distributions(32, 101), torch.full((32,), 0.5)
    reward = torch.linspace(-4.0, 4.0, 32)  # |reward| + 0.5 * 10 stays below 10

    moved = project(p, reward, discount, support)

    torch.testing.assert_close(expectation(moved, support), reward + 0.5 * expectation(p, support), atol=1e-5, rtol=0)


@pytest.mark.parametrize("support", [Support(-8.0, 8.0, 129), Support(-5.0, 5.0, 41), Support(0.0, 31.0, 32)])
def test_mass_that_lands_on_an_atom_stays_there_to_the_last_bit(form, support):
    count = support.count
    p, atoms = distributions(count, count), support.atoms(torch.device("cpu"))
    everywhere, ends = torch.ones(count), torch.zeros(count)

    landed = project(p, atoms, ends, support)  # row k ended, with the reward of atom k
    moved = project(p, torch.tensor(3 * support.step).expand(count), everywhere, support)

    assert torch.equal(landed != 0.0, torch.eye(count, dtype=torch.bool))
    torch.testing.assert_close(landed.diagonal(), torch.ones(count), atol=1e-6, rtol=0.0)
    assert torch.equal(moved[:, 3:-1], p[:, :-4])
    assert torch.equal(project(p, ends, everywhere, support), p)


@pytest.mark.parametrize("support", [Support(-10.0, 10.0, 101), Support(-20.0, 20.0, 151), Support(-0.3, 0.7, 11)])
def test_an_atom_that_float32_cannot_hold_is_missed_by_no_more_than_its_rounding(form, support):
    count = support.count
    p, atoms = distributions(count, count), support.atoms(torch.device("cpu"))

    landed = project(p, atoms, torch.zeros(count), support)

    torch.testing.assert_close(landed, torch.eye(count), atol=2.0**-24 * support.high / support.step + 1e-6, rtol=0.0)
    assert torch.equal(project(p, torch.zeros(count), torch.ones(count), support), p)


def test_rows_stay_apart_beyond_2_to_the_24_elements():
    # From there on float32 does not tell neighbouring whole numbers apart.
    rows, support = 2**24 // 501 + 500, Support(-1.0, 1.0, 501)
    p = torch.zeros(rows, 501)
    column = torch.arange(rows) % 499
    p[torch.arange(rows), column] = 1.0

    moved = project(p, torch.tensor(support.step).expand(rows), torch.ones(rows), support)

    assert moved.numel() > 2**24
    assert torch.equal(moved[torch.arange(rows), column + 1], torch.ones(rows))
    assert moved.sum(dtype=torch.float64).item() == rows


def test_a_value_that_is_not_a_number_becomes_a_loss_that_is_not_one():
    moved = project(distributions(2, 5), torch.tensor([math.nan, 0.0]), torch.ones(2), FIVE)

    assert moved[0].isnan().any()
    assert torch.equal(moved[1], distributions(2, 5)[1])


def test_an_expectation_is_the_mean_of_the_atoms():
    assert FIVE.atoms(torch.device("cpu")).tolist() == [-2, -1, 0, 1, 2]
    assert Support(-5.0, 5.0, 101).atoms(torch.device("cpu"))[50].item() == 0.0
    assert expectation(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0]), FIVE).item() == pytest.approx(-0.2 - 0.2 + 0.4)


def test_cross_entropy_and_its_gradient_agree_with_finite_differences_in_float64():
    g = torch.Generator().manual_seed(2)
    logits, target = torch.randn(3, 5, generator=g), distributions(3, 5)

    def loss(x) -> float:
        weights = x.double().exp()
        return -(target.double() * (weights / weights.sum(-1, keepdim=True)).log()).sum().item()

    leaf = logits.clone().requires_grad_()
    total = cross_entropy(leaf, target).sum()
    (gradient,) = torch.autograd.grad(total, leaf)

    assert total.item() == pytest.approx(loss(logits), rel=1e-6)
    for i in range(3):
        for k in range(5):
            nudge = torch.zeros(3, 5, dtype=torch.float64)
            nudge[i, k] = 1e-5
            slope = (loss(logits.double() + nudge) - loss(logits.double() - nudge)) / 2e-5
            assert gradient[i, k].item() == pytest.approx(slope, abs=1e-5)


def test_cross_entropy_is_finite_where_a_softmax_would_have_rounded_to_zero():
    loss = cross_entropy(torch.tensor([[0.0, 300.0]]), torch.tensor([[1.0, 0.0]]))

    assert loss.tolist() == [300.0]


def test_of_two_critics_the_one_that_expects_less_is_taken_row_by_row():
    low, high = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]), torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])  # means -1 and 0
    both = torch.stack([torch.stack([low, high, high]), torch.stack([high, low, high])])

    assert torch.equal(lower_mean(both, FIVE), torch.stack([low, low, high]))


def test_an_entropy_bonus_is_that_of_the_next_action_and_there_is_none_after_the_end():
    reward = soft_reward(
        torch.tensor([1.0, 1.0]), torch.tensor([0.9, 0.0]), torch.tensor([-2.0, -2.0]), torch.tensor(0.5)
    )

    assert reward.tolist() == pytest.approx([1.0 + 0.9 * 0.5 * 2.0, 1.0])


def test_mass_at_the_ends_is_what_lies_on_the_outermost_atoms():
    assert at_the_ends(torch.tensor([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]])).item() == 0.25

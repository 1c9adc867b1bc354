import dataclasses

import pytest
import torch
from toy_learners import minibatch

from unilab.algos.targets import polyak, smaller, smoothed_action, td_target, twin_loss


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        (False, False, 1.0 + 0.9 * 10.0),
        (False, True, 1.0 + 0.9 * 10.0),
        (True, False, 1.0),
        (True, True, 1.0),
    ],
)
def test_a_target_bootstraps_unless_terminated_whether_truncated_or_not(terminated, truncated, expected):
    # Nothing could make it depend on truncated: that is no argument.
    target = td_target(torch.tensor([1.0]), torch.tensor([terminated]), torch.tensor([10.0]), discount=0.9)

    assert target.item() == pytest.approx(expected)


def test_a_target_discounts_by_gamma_to_the_power_of_the_steps_that_a_row_stands_for():
    rows = dataclasses.replace(minibatch(rows=4), steps=torch.tensor([1.0, 2.0, 3.0, 5.0]))
    value, running = torch.full((4,), 10.0), torch.tensor([False, False, False, True])
    target = td_target(torch.ones(4), running, value, rows.discount(0.9))

    assert target.tolist() == pytest.approx([1 + 9.0, 1 + 8.1, 1 + 7.29, 1.0])
    assert minibatch(rows=4).discount(0.9) == 0.9


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99, 0.997, 1.0])
def test_rows_of_one_step_have_the_bits_of_one_step_targets(gamma):
    one = minibatch(rows=1_000)
    more = dataclasses.replace(one, steps=torch.ones(1_000))
    value = one.obs[:, 0]
    targets = [td_target(rows.reward, rows.terminated, value, rows.discount(gamma)) for rows in (one, more)]

    assert torch.equal(*targets)


def test_a_target_carries_no_gradient_and_stays_float32():
    target = td_target(torch.ones(2), torch.tensor([True, False]), torch.ones(2, requires_grad=True), 0.5)

    assert not target.requires_grad
    assert target.dtype == torch.float32
    assert target.tolist() == [1.0, 1.5]


def test_polyak_moves_each_target_by_the_share_tau_in_place():
    targets, online = (
        [torch.tensor([0.0, 8.0]), torch.tensor(1.0)],
        [torch.tensor([4.0, 0.0]), torch.tensor(1.0)],
    )
    places = [t.data_ptr() for t in targets]

    polyak(targets, online, 0.25)
    assert [t.tolist() for t in targets] == [[1.0, 6.0], 1.0]
    polyak(targets, online, 0.25)
    assert [t.tolist() for t in targets] == [[1.75, 4.5], 1.0]

    assert [t.data_ptr() for t in targets] == places
    assert [t.tolist() for t in online] == [[4.0, 0.0], 1.0]


def test_polyak_with_a_tau_of_one_copies():
    target, online = torch.tensor([3.0]), torch.nn.Parameter(torch.tensor([0.1]))

    polyak([target], [online], 1.0)

    assert target.item() == online.item()


def test_the_smoothing_noise_is_clipped_and_so_is_the_action_both_in_the_normalised_scale():
    action = torch.tensor([[0.0, 0.0, 0.9, -0.9, 0.5]])
    noise = torch.tensor([[1.0, -9.0, 9.0, -9.0, 0.0]])

    smoothed = smoothed_action(action, noise, scale=0.2, clip=0.5)

    torch.testing.assert_close(smoothed, torch.tensor([[0.2, -0.5, 1.0, -1.0, 0.5]]))


def test_the_twin_loss_is_half_the_sum_of_both_mean_squared_errors():
    q, target = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([0.0, 2.0])

    # critic 0: (1 + 0) / 2, critic 1: (9 + 9) / 2
    assert twin_loss(q, target).item() == pytest.approx(0.5 * (0.5 + 9.0))


def test_the_smaller_of_both_critics_counts_row_by_row():
    q = torch.tensor([[1.0, 5.0], [2.0, -3.0]], requires_grad=True)

    least = smaller(q)
    least.sum().backward()

    assert least.tolist() == [1.0, -3.0]
    assert q.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]

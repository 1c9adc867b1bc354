import pytest
import torch
from torch.nn.functional import batch_norm

from unilab.nets.batch_norm import BatchRenorm

ROWS = torch.randn(64, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.1, 1.0, 3.0, 10.0, 1.0]) + 2.0


def norm(warmup=100, width=5, momentum=0.9) -> BatchRenorm:
    """With a scale and a shift that show."""
    made = BatchRenorm((1, width), momentum=momentum, warmup=warmup)
    with torch.no_grad():
        made.weight.copy_(torch.linspace(0.5, 2.0, width))
        made.bias.copy_(torch.linspace(-1.0, 1.0, width))
    return made


def test_until_the_warm_up_ends_it_is_torchs_batch_norm_with_the_same_gradients():
    made, x, y = norm(), ROWS.clone().requires_grad_(), ROWS.clone().requires_grad_()
    weight, bias = made.weight.detach()[0].requires_grad_(), made.bias.detach()[0].requires_grad_()

    ours = made.learn(x)
    theirs = batch_norm(y, None, None, weight, bias, training=True, eps=1e-3)
    ours.pow(3).sum().backward()
    theirs.pow(3).sum().backward()

    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(made.weight.grad[0], weight.grad, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(made.bias.grad[0], bias.grad, rtol=1e-4, atol=1e-3)


def test_running_statistics_keep_their_share_of_the_mean_and_the_biased_variance():
    made = norm(momentum=0.75)

    made.learn(ROWS)
    made.learn(ROWS + 1.0)

    mean, var = ROWS.mean(0), ROWS.var(0, correction=0)
    torch.testing.assert_close(made.mean[0], 0.75 * 0.25 * mean + 0.25 * (mean + 1.0))
    torch.testing.assert_close(made.var[0], 0.75 * (0.75 + 0.25 * var) + 0.25 * var)
    assert made.batches == 2


def test_forward_uses_the_running_statistics_and_leaves_them_alone():
    made = norm()
    for _ in range(3):
        made.learn(ROWS)
    state = {key: value.clone() for key, value in made.state_dict().items()}

    got = made(ROWS)

    wanted = batch_norm(ROWS, made.mean[0], made.var[0], made.weight[0], made.bias[0], training=False, eps=1e-3)
    torch.testing.assert_close(got, wanted)
    assert all(torch.equal(value, state[key]) for key, value in made.state_dict().items())


def test_after_the_warm_up_a_batch_is_normalised_as_by_the_running_statistics():
    made = BatchRenorm((1, 5), momentum=0.9, warmup=0)
    made.mean.copy_(ROWS.mean(0) + 0.3)
    made.var.copy_(ROWS.var(0) * 1.5)
    by_running = made(ROWS)

    torch.testing.assert_close(made.learn(ROWS), by_running, rtol=1e-4, atol=1e-4)


def test_the_correction_is_limited_worked_by_hand():
    """Rows 100 and 104: mean 102, std 2. Running: mean 0, std 1 and std 100 (epsilon is small beside them)."""
    x = torch.tensor([[100.0], [104.0]])

    narrow = BatchRenorm((1, 1), momentum=0.9, warmup=0, epsilon=0.0)
    torch.testing.assert_close(narrow.learn(x), torch.tensor([[-2.0 + 5.0], [2.0 + 5.0]]))  # r = 2, d = 102 -> 5

    wide = BatchRenorm((1, 1), momentum=0.9, warmup=0, epsilon=0.0)
    wide.var.fill_(1e4)
    # r = 0.02 -> 1/3, d = 1.02
    torch.testing.assert_close(wide.learn(x), torch.tensor([[-1.0 / 3.0 + 1.02], [1.0 / 3.0 + 1.02]]))


def test_the_correction_takes_no_part_in_the_gradient():
    made, x = norm(warmup=0), ROWS.clone().requires_grad_()
    made.var.fill_(4.0)
    y = ROWS.double().requires_grad_()
    std = torch.sqrt(y.var(0, correction=0) + 1e-3)
    r = (std / torch.sqrt(torch.tensor(4.0 + 1e-3))).clamp(1 / 3, 3).detach()
    d = (y.mean(0) / torch.sqrt(torch.tensor(4.0 + 1e-3))).clamp(-5, 5).detach()
    expected = ((y - y.mean(0)) / std * r + d) * made.weight.double() + made.bias.double()

    ours = made.learn(x)
    ours.pow(3).sum().backward()
    expected.pow(3).sum().backward()

    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("at", [0, 2])
def test_the_warm_up_is_counted_in_batches(at):
    made, plain = norm(warmup=2), norm(warmup=100)
    for each in (made, plain):
        for _ in range(at):
            each.learn(ROWS)

    assert torch.equal(made.learn(ROWS), plain.learn(ROWS)) == (at < 2)


def test_members_have_statistics_of_their_own():
    twin = BatchRenorm((2, 1, 5), momentum=0.9, warmup=100)
    x = torch.stack((ROWS, 3.0 * ROWS - 1.0))

    y = twin.learn(x)

    torch.testing.assert_close(y.mean(1), torch.zeros(2, 5), atol=1e-4, rtol=0)
    torch.testing.assert_close(twin.mean[:, 0], 0.1 * x.mean(1))


def test_one_row_is_its_own_mean():
    assert torch.equal(norm().learn(ROWS[:1]), norm().bias)


def outlier_first() -> torch.Tensor:
    """The worst row to see the others from: no row of N lies further than sqrt(N - 1) standard deviations."""
    x = torch.full((512, 3), 1.0)
    x[0] = torch.tensor([1e3, -1e4, 2.0])
    return x


@pytest.mark.parametrize(
    ("x", "digits"),
    [
        (torch.randn(512, 3, generator=torch.Generator().manual_seed(1)) + 1e3, 1e-4),
        (torch.randn(512, 3, generator=torch.Generator().manual_seed(2)) * 1e-2 - 10.0, 1e-4),
        (outlier_first(), 1e-3),
    ],
    ids=["mean of 1e3 std", "the same, small", "the first row far from all others"],
)
def test_a_mean_far_from_0_costs_no_digits_of_values_statistics_and_gradients(x, digits):
    made, rows, y = norm(width=3, momentum=0.0), x.clone().requires_grad_(), x.double().requires_grad_()
    away = torch.randn(512, 3, generator=torch.Generator().manual_seed(3))
    weight, bias = (p.detach()[0].double().requires_grad_() for p in (made.weight, made.bias))

    ours = made.learn(rows)
    theirs = batch_norm(y, None, None, weight, bias, training=True, eps=1e-3)
    (ours * away).sum().backward()
    (theirs * away.double()).sum().backward()

    def close(got, wanted):
        assert (got.double() - wanted).abs().max() <= digits * wanted.abs().max()

    close(ours.detach(), theirs.detach())
    close(made.mean[0], x.double().mean(0))
    close(made.var[0], x.double().var(0, correction=0))
    close(rows.grad, y.grad)
    close(made.weight.grad[0], weight.grad)
    close(made.bias.grad[0], bias.grad)

import math

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from unilab.nets.distributions import squashed_action, squashed_sample


def draws(n: int = 64, dim: int = 3) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(0)
    mean, log_std, noise = (torch.randn(n, dim, generator=g) for _ in range(3))
    return 0.5 * mean, 0.5 * log_std - 1.0, noise


def test_the_log_probability_is_that_of_torchs_transformed_distribution():
    mean, log_std, noise = draws()
    base = Independent(Normal(mean.double(), log_std.double().exp()), 1)
    squashed = TransformedDistribution(base, [TanhTransform()])

    _, log_prob = squashed_sample(mean, log_std, noise)

    oracle = squashed.log_prob((mean.double() + log_std.double().exp() * noise.double()).tanh())
    torch.testing.assert_close(log_prob.double(), oracle, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("u", [-20.0, -12.0, -9.0, 9.0, 12.0, 20.0])
def test_the_log_probability_is_right_where_tanh_has_rounded_to_one(u):
    mean, log_std = torch.tensor([[u]], requires_grad=True), torch.tensor([[-1.0]], requires_grad=True)

    action, log_prob = squashed_sample(mean, log_std, torch.zeros(1, 1))
    log_prob.sum().backward()

    # 1 - tanh(u)^2 = 4 / (e^u + e^-u)^2, in float64
    log_slope = math.log(4.0) - 2.0 * np.logaddexp(u, -u)
    oracle = -math.log(math.exp(-1.0) * math.sqrt(2.0 * math.pi)) - log_slope
    assert action.abs().item() == pytest.approx(1.0, abs=1e-7)
    assert log_prob.item() == pytest.approx(oracle, rel=1e-6)
    assert mean.grad.item() == pytest.approx(2.0 * math.tanh(u), rel=1e-6)  # d/du of -log(1 - tanh(u)^2)
    assert log_std.grad.item() == pytest.approx(-1.0)


def test_dimensions_add_up():
    mean, log_std, noise = draws(dim=2)

    _, both = squashed_sample(mean, log_std, noise)
    single = [squashed_sample(mean[:, i : i + 1], log_std[:, i : i + 1], noise[:, i : i + 1])[1] for i in (0, 1)]

    torch.testing.assert_close(both, single[0] + single[1])


def test_the_action_is_tanh_of_mean_plus_std_times_noise():
    action, _ = squashed_sample(torch.tensor([[0.25]]), torch.tensor([[math.log(0.5)]]), torch.tensor([[-1.5]]))

    assert action.item() == pytest.approx(math.tanh(0.25 - 0.75))


def test_acting_and_learning_sample_the_same_action():
    mean, log_std, noise = draws()

    assert torch.equal(squashed_action(mean, log_std, noise), squashed_sample(mean, log_std, noise)[0])

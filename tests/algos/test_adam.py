import pytest
import torch
from torch import nn

from unilab.algos.adam import Adam
from unilab.algos.base import LearnerConfig
from unilab.algos.schedule import LearningRate

OPTIONS = [
    {},
    {"betas": (0.5, 0.9)},
    {"betas": (0.0, 0.99)},
    {"betas": (0.9, 0.0)},
    {"weight_decay": 0.1},
    {"max_grad_norm": 0.3},
]


def rate(value: float = 0.01) -> LearningRate:
    return LearningRate(LearnerConfig(learning_rate=value), 0, torch.device("cpu"))


def loss(weight: nn.Parameter, bias: nn.Parameter, step: int) -> torch.Tensor:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return (x @ weight + bias).square().mean()


def fresh() -> list[nn.Parameter]:
    return [nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3)), nn.Parameter(torch.zeros(3))]


def torchs(parameters, betas=(0.9, 0.999), weight_decay=0.0, max_grad_norm=0.0):
    """Ten steps of torch's own optimiser."""
    oracle = torch.optim.AdamW(parameters, lr=0.01, betas=betas, weight_decay=weight_decay, fused=True)
    for step in range(10):
        oracle.zero_grad()
        loss(*parameters, step).backward()
        if max_grad_norm:
            torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
        oracle.step()


@pytest.mark.parametrize("options", OPTIONS)
def test_a_step_is_torchs_own_adam_bit_for_bit(options):
    ours, theirs = fresh(), fresh()
    optimizer = Adam(ours, rate(), **options)

    for step in range(10):
        optimizer.descend(loss(*ours, step))
    torchs(theirs, **options)

    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("options", OPTIONS)
def test_spelled_out_for_a_compiler_it_is_the_same_to_rounding(options, monkeypatch):
    ours, theirs = fresh(), fresh()
    optimizer = Adam(ours, rate(), **options)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)

    for step in range(10):
        optimizer.descend(loss(*ours, step))
    torchs(theirs, **options)

    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("compiling", [False, True])
def test_the_rate_may_change_from_step_to_step(compiling, monkeypatch):
    (weight, bias), cfg = fresh(), LearnerConfig(learning_rate=0.01, lr_schedule="linear")
    falling = LearningRate(cfg, 2, torch.device("cpu"))
    optimizer = Adam([weight, bias], falling)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)

    steps = []
    for update in (1, 2, 3):
        before = bias.detach().clone()
        falling.at(update)
        optimizer.descend(bias.sum() + 0.0 * weight.sum())
        steps.append((before - bias.detach())[0].item())

    assert steps == pytest.approx([0.01, 0.005, 0.0], rel=1e-5, abs=1e-9)


def test_a_gradient_in_another_memory_order_is_read_right():
    (ours, _), (theirs, _) = fresh(), fresh()
    factor = torch.linspace(-1, 2, 12).reshape(3, 4)
    optimizer, oracle = Adam([ours], rate()), torch.optim.Adam([theirs], lr=0.01)
    assert torch.autograd.grad((ours.T.contiguous() * factor).sum(), ours)[0].stride() == (1, 4)

    optimizer.descend((ours.T.contiguous() * factor).sum())
    (theirs.T.contiguous() * factor).sum().backward()
    oracle.step()

    torch.testing.assert_close(ours, theirs)


def test_only_its_own_parameters_get_a_gradient_and_none_is_left_behind():
    weight, bias = fresh()

    Adam([weight], rate()).descend(loss(weight, bias, 0))

    assert weight.grad is None
    assert bias.grad is None
    assert bias.tolist() == [0.0] * 3


def test_a_parameter_whose_data_was_re_pointed_is_changed_where_it_now_lies():
    weight, bias = fresh()
    optimizer = Adam([weight, bias], rate())
    block = torch.empty(12)
    weight.data = block.view(4, 3).copy_(weight.data)
    before = block.clone()

    optimizer.descend(loss(weight, bias, 0))

    assert not torch.equal(block, before)
    assert weight.data_ptr() == block.data_ptr()

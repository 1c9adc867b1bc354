import torch
from torch import nn

from unilab.algos.adam import Adam


def loss(weight: nn.Parameter, bias: nn.Parameter, step: int) -> torch.Tensor:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return (x @ weight + bias).square().mean()


def fresh() -> list[nn.Parameter]:
    return [nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3)), nn.Parameter(torch.zeros(3))]


def test_a_step_is_torchs_own_adam_bit_for_bit():
    ours, theirs = fresh(), fresh()
    optimizer, oracle = Adam(ours, learning_rate=0.01), torch.optim.Adam(theirs, lr=0.01, fused=True)

    for step in range(10):
        optimizer.descend(loss(*ours, step))
        oracle.zero_grad()
        loss(*theirs, step).backward()
        oracle.step()

    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_gradient_in_another_memory_order_is_read_right():
    (ours, _), (theirs, _) = fresh(), fresh()
    factor = torch.linspace(-1, 2, 12).reshape(3, 4)
    optimizer, oracle = Adam([ours], learning_rate=0.01), torch.optim.Adam([theirs], lr=0.01)
    assert torch.autograd.grad((ours.T.contiguous() * factor).sum(), ours)[0].stride() == (1, 4)

    optimizer.descend((ours.T.contiguous() * factor).sum())
    (theirs.T.contiguous() * factor).sum().backward()
    oracle.step()

    torch.testing.assert_close(ours, theirs)


def test_only_its_own_parameters_get_a_gradient_and_none_is_left_behind():
    weight, bias = fresh()

    Adam([weight], learning_rate=0.01).descend(loss(weight, bias, 0))

    assert weight.grad is None
    assert bias.grad is None
    assert bias.tolist() == [0.0] * 3


def test_a_parameter_whose_data_was_re_pointed_is_changed_where_it_now_lies():
    weight, bias = fresh()
    optimizer = Adam([weight, bias], learning_rate=0.01)
    block = torch.empty(12)
    weight.data = block.view(4, 3).copy_(weight.data)
    before = block.clone()

    optimizer.descend(loss(weight, bias, 0))

    assert not torch.equal(block, before)
    assert weight.data_ptr() == block.data_ptr()

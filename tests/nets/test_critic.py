import pytest
import torch
from torch import Tensor, nn

from unilab.nets.critic import TwinCritic

OBS = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
ACTION = torch.rand(7, 2, generator=torch.Generator().manual_seed(2)) * 2 - 1


def separate(state: dict[str, Tensor], member: int, *, layer_norm: bool) -> nn.Sequential:
    """The network that ``member`` should be, built from torch's own layers."""
    layers: list[nn.Module] = []
    for key in (k for k in state if k.startswith("layers.") and k.endswith(".weight")):
        weight, bias = state[key][member], state[key.replace("weight", "bias")][member][0]
        if len(weight) == 1:  # [1, width]: a layer norm's
            norm = nn.LayerNorm(weight.shape[1])
            norm.weight.data, norm.bias.data = weight[0].clone(), bias.clone()
            layers.insert(-1, norm)
        else:
            layer = nn.Linear(*weight.shape)
            layer.weight.data, layer.bias.data = weight.T.clone(), bias.clone()
            layers += [layer, nn.ReLU()]
    head = nn.Linear(state["head.weight"].shape[-1], 1)
    head.weight.data, head.bias.data = (
        state["head.weight"][member].clone(),
        state["head.bias"][member].clone(),
    )
    assert sum(isinstance(x, nn.LayerNorm) for x in layers) == (2 if layer_norm else 0)
    return nn.Sequential(*layers, head)


def critic(*, layer_norm: bool) -> TwinCritic:
    twin = TwinCritic(3, 2, (8, 6), torch.Generator().manual_seed(0), layer_norm=layer_norm)
    with torch.no_grad():  # ones and zeros would hide a wrong index
        for parameter in twin.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    return twin


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_twin_critic_is_two_separate_networks_with_the_same_weights(layer_norm):
    twin = critic(layer_norm=layer_norm)
    action = ACTION.clone().requires_grad_()
    twin(OBS, action).square().sum().backward()

    for member in range(2):
        net = separate(twin.state_dict(), member, layer_norm=layer_norm)
        q = net(torch.cat((OBS, ACTION), -1))[:, 0]
        q.square().sum().backward()

        torch.testing.assert_close(twin(OBS, ACTION)[member], q)
        first = twin.get_parameter("layers.0.weight").grad
        torch.testing.assert_close(first[member], net[0].weight.grad.T, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(twin.head.weight.grad[member], net[-1].weight.grad)
        torch.testing.assert_close(twin.head.bias.grad[member], net[-1].bias.grad)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_first_is_member_zero_with_the_same_gradient_for_the_action(layer_norm):
    twin = critic(layer_norm=layer_norm)
    alone, both = ACTION.clone().requires_grad_(), ACTION.clone().requires_grad_()

    q_alone, q_both = twin.first(OBS, alone), twin(OBS, both)[0]
    q_alone.sum().backward()
    q_both.sum().backward()

    torch.testing.assert_close(q_alone, q_both)
    torch.testing.assert_close(alone.grad, both.grad)


def test_the_initial_weights_are_those_of_two_networks_built_one_after_the_other():
    twin = TwinCritic(3, 2, (8,), torch.Generator().manual_seed(5))
    torch.manual_seed(5)
    nets = [nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(2)]

    for member, net in enumerate(nets):
        assert torch.equal(twin.get_parameter("layers.0.weight")[member], net[0].weight.T)
        assert torch.equal(twin.get_parameter("layers.0.bias")[member, 0], net[0].bias)
        assert torch.equal(twin.head.weight[member], net[2].weight)
        assert torch.equal(twin.head.bias[member], net[2].bias)


def test_the_result_has_a_row_per_member():
    assert critic(layer_norm=False)(OBS, ACTION).shape == (2, 7)

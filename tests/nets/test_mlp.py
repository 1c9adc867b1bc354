import torch
from torch import nn

from unilab.nets.mlp import linear, mlp


def test_the_initial_weights_are_torchs_default_from_the_given_generator():
    torch.manual_seed(3)
    theirs = nn.Linear(5, 4)

    ours = linear(5, 4, torch.Generator().manual_seed(3))

    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)


def test_building_a_network_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()

    mlp((5, 8, 2), torch.Generator().manual_seed(0))

    assert torch.equal(torch.random.get_rng_state(), before)


def test_relu_stands_between_layers_and_not_after_the_last():
    net = mlp((1, 1, 1), torch.Generator())
    with torch.no_grad():
        net[0].weight.fill_(1.0), net[0].bias.fill_(0.0)
        net[2].weight.fill_(-2.0), net[2].bias.fill_(0.5)

    values = net(torch.tensor([[-3.0], [3.0]]))

    assert values.tolist() == [[0.5], [-5.5]]

from math import sqrt

import pytest
import torch
from torch.nn.functional import batch_norm

from unilab.errors import ConfigError
from unilab.nets.unit_body import UnitBody, UnitLinear, project

X = torch.randn(32, 5, generator=torch.Generator().manual_seed(0)) * 3.0 + 1.0


def body(lead=(), widths=(6, 6)):
    made = UnitBody(lead, 5, widths, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    return made


def slow(state, x, member=None):
    """The features in float64 from torch's own batch norm."""
    pick = {key: (value if member is None else value[member]).double() for key, value in state.items() if value.ndim}

    def norm(name, x):
        return batch_norm(x, None, None, pick[f"{name}.weight"][0], pick[f"{name}.bias"][0], training=True, eps=1e-5)

    x = norm("input_norm", x.double()) @ pick["embedding.weight"]
    for i in range(2):
        inner = norm(f"blocks.{i}.inner_norm", x @ pick[f"blocks.{i}.widen.weight"]).relu()
        x = x + norm(f"blocks.{i}.outer_norm", inner @ pick[f"blocks.{i}.narrow.weight"]).relu()
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * pick["scale"][0]


def test_learn_is_the_published_network():
    made = body()

    torch.testing.assert_close(made.learn(X).double(), slow(made.state_dict(), X), rtol=1e-4, atol=1e-5)


def test_twins_are_two_networks():
    made = body(lead=(2,))
    features = made.learn(X.expand(2, -1, -1)).double()

    for member in range(2):
        torch.testing.assert_close(features[member], slow(made.state_dict(), X, member), rtol=1e-4, atol=1e-5)


def test_by_running_statistics_a_row_does_not_depend_on_the_others():
    made = body()
    for _ in range(5):
        made.learn(X)

    torch.testing.assert_close(made(X)[:3], made(X[:3]))


@pytest.mark.parametrize("lead", [(), (2,)])
def test_projection_gives_every_layer_its_length(lead):
    made = body(lead)
    directions = made.embedding.weight / made.embedding.weight.norm(dim=-2, keepdim=True)

    project(made)

    ones = torch.ones_like
    for name, parameter in made.named_parameters():
        if "norm" not in name and name != "scale":
            lengths = parameter.norm(dim=-2)
            torch.testing.assert_close(lengths, ones(lengths))
    torch.testing.assert_close(made.embedding.weight, directions)
    for norm in (made.input_norm, made.blocks[0].inner_norm, made.blocks[1].outer_norm):
        length = torch.sqrt((norm.weight.square() + norm.bias.square()).sum(-1))
        torch.testing.assert_close(length, sqrt(norm.weight.shape[-1]) * ones(length))
    length = made.scale.norm(dim=-1)
    torch.testing.assert_close(length, sqrt(6) * ones(length))


@pytest.mark.parametrize("shape", [(4, 16), (16, 4)])
def test_a_layer_begins_with_columns_of_length_one_at_right_angles_where_there_is_room(shape):
    weight = UnitLinear((), *shape, torch.Generator().manual_seed(0)).weight

    torch.testing.assert_close(weight.norm(dim=0), torch.ones(shape[1]))
    if shape[0] >= shape[1]:
        torch.testing.assert_close(weight.T @ weight, torch.eye(shape[1]), atol=1e-5, rtol=0)


def test_blocks_of_different_widths_are_refused():
    with pytest.raises(ConfigError, match=r"hidden=\(6, 7\) must be one width"):
        body(widths=(6, 7))

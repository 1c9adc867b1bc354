"""The networks of a learner's saved state as plain ``nn.Sequential``s, one a critic, in float64."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Networks = list[nn.Sequential]


def actor_from(state: Mapping[str, Tensor], prefix: str) -> nn.Sequential:
    """The MLP under ``prefix``, whose layers are ``<prefix>0.weight``, ``<prefix>2.weight``, ..."""
    indices = sorted({int(key.removeprefix(prefix).split(".")[0]) for key in state if key.startswith(prefix)})
    return _stack([(state[f"{prefix}{i}.weight"], state[f"{prefix}{i}.bias"]) for i in indices])


def critics_from(state: Mapping[str, Tensor]) -> Networks:
    """Two networks from a twin critic's state without layer norm."""
    names = sorted(key.removesuffix(".weight") for key in state if key.endswith(".weight"))
    names.remove("head")
    return [
        _stack(
            [(state[f"{name}.weight"][m].T, state[f"{name}.bias"][m, 0]) for name in names]
            + [(state["head.weight"][m], state["head.bias"][m])]
        )
        for m in range(2)
    ]


def q_values(critics: Networks, obs: Tensor, action: Tensor) -> list[Tensor]:
    """[B] values of each critic."""
    return [critic(torch.cat((obs, action), -1))[:, 0] for critic in critics]


def parameters(nets: Networks) -> list[nn.Parameter]:
    return [parameter for net in nets for parameter in net.parameters()]


def close(one: nn.Module, other: nn.Module, tolerance: float) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.allclose(a, b, rtol=0.0, atol=tolerance) for a, b in pairs)


def move_towards(targets: Networks, online: Networks, tau: float) -> None:
    with torch.no_grad():
        for target, source in zip(parameters(targets), parameters(online), strict=True):
            target.copy_((1.0 - tau) * target + tau * source)


def _stack(weights: list[tuple[Tensor, Tensor]]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weight, bias in weights:
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = weight.clone(), bias.clone()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()

"""Save and restore the parts that a learner is made of: modules (optimisers among them) and generators.

A saved state is nested dicts of tensors, numbers and strings, so that ``torch.load(weights_only=True)`` takes
it. It is a copy: later updates do not reach into it. Hyperparameters are not in it, they come from the config
of the run that continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unilab.algos.adam import Adam
from unilab.errors import ConfigError

Part = nn.Module | torch.Generator


def save_state(parts: Mapping[str, Part], updates: int) -> dict[str, Any]:
    """Copies of the state of each part by its name, and the number of updates done."""
    return {"updates": updates, **{name: _save(part) for name, part in parts.items()}}


def load_state(parts: Mapping[str, Part], state: Mapping[str, Any]) -> int:
    """Restore what ``save_state`` returned.

    Everything is compared before anything is changed. Parameters and buffers change in place.

    Returns:
        The number of updates done.

    Raises:
        ConfigError: a name, a shape, a dtype or a generator's device differs.
    """
    _same_names("state", {"updates", *parts}, state)
    for name, part in parts.items():
        _check(name, part, state[name])
    for name, part in parts.items():
        _load(part, state[name])
    return int(state["updates"])


def load_weights(parts: Mapping[str, Part], state: Mapping[str, Any]) -> None:
    """Take over networks, normalisers and temperature of a saved state; optimisers, generators and counts stay fresh.

    Raises:
        ConfigError: a name, a shape or a dtype differs; nothing was changed.
    """
    learnt = {name: part for name, part in parts.items() if isinstance(part, nn.Module) and not isinstance(part, Adam)}
    for name, part in learnt.items():
        if name not in state:
            raise ConfigError(f"the saved state has no {name}; it was saved by another algorithm or with other options")
        _check(name, part, state[name])
    for name, part in learnt.items():
        _load(part, state[name])


def _save(part: Part) -> dict[str, Any]:
    if isinstance(part, torch.Generator):
        return {"device": part.device.type, "state": part.get_state()}
    return {key: value.detach().clone() for key, value in part.state_dict().items()}


def _check(name: str, part: Part, state: Mapping[str, Any]) -> None:
    if isinstance(part, torch.Generator):
        _same_names(name, {"device", "state"}, state)
        if state["device"] != part.device.type:
            raise ConfigError(
                f"the saved state's {name} comes from a {state['device']} generator, this learner's from "
                f"a {part.device.type} one; continue with device={state['device']}"
            )
        return
    mine = part.state_dict()
    _same_names(name, set(mine), state)
    for key, tensor in mine.items():
        _same_kind(f"{name}.{key}", tensor, state[key])


@torch.no_grad()
def _load(part: Part, state: Mapping[str, Any]) -> None:
    if isinstance(part, torch.Generator):
        part.set_state(state["state"].cpu())
        return
    for key, tensor in part.state_dict().items():
        tensor.copy_(state[key])


def _same_names(where: str, mine: set[str], saved: Mapping[str, object]) -> None:
    if mine != saved.keys():
        lacking, besides = sorted(mine - saved.keys()), sorted(saved.keys() - mine)
        raise ConfigError(
            f"{where}: the saved state lacks {lacking} and has {besides} besides; "
            "continue with the algorithm and the options that it was saved with"
        )


def _same_kind(where: str, mine: Tensor, saved: Tensor) -> None:
    if mine.shape != saved.shape or mine.dtype != saved.dtype:
        raise ConfigError(
            f"{where}: saved as {saved.dtype} {tuple(saved.shape)}, needed as {mine.dtype} "
            f"{tuple(mine.shape)}; continue with the env and the network sizes that it was saved with"
        )

"""The policy as a robot needs it: raw observations to actions in the env's own units."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from unilab.spec import EnvSpec


class Deployed(nn.Module):
    """Normaliser, deterministic actor and the scale of the actions, as one module without state of its own.

    Computes what ``Policy.act`` and the env's ``ActionScale`` do one after the other.

    Args:
        module: a policy's; called, it takes raw observations and acts deterministically in [-1, 1].
        env: bounds of the actions.
    """

    low: Tensor  # [action_dim] float64
    high: Tensor  # [action_dim] float64

    def __init__(self, module: nn.Module, env: EnvSpec) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        self.register_buffer("low", torch.tensor(env.action_low, dtype=torch.float64))
        self.register_buffer("high", torch.tensor(env.action_high, dtype=torch.float64))
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Raw inputs as the env gives them to actions in env units, between the bounds.

        Args:
            inputs: obs [B, obs_dim] float32 and, where there is an encoder, the privileged vector [B, privileged_dim].

        Returns:
            [B, action_dim] float32.
        """
        # Weights of the two ends, in float64: exact at both, and no overflow.
        t = (self.module(torch.cat(inputs, dim=-1)).double() + 1.0) * 0.5
        scaled = (self.low * (1.0 - t) + self.high * t).float()
        return torch.clamp(scaled, self.low.float(), self.high.float())

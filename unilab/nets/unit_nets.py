"""FlashSAC's actor and its twin categorical critics, on ``UnitBody``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unilab.nets.critic import MEMBERS
from unilab.nets.unit_body import UnitBody, UnitHead

LOG_STD_MIN = -10.0
LOG_STD_MAX = 2.0


class UnitActor(nn.Module):
    """A Gaussian actor whose log standard deviation is mapped by tanh into its range.

    Args:
        obs_dim: width of the observation.
        action_dim: width of the action.
        widths: of the residual blocks.
        generator: source of the initial weights.
    """

    def __init__(self, obs_dim: int, action_dim: int, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.body = UnitBody((), obs_dim, widths, generator)
        self.mean = UnitHead((), widths[-1], action_dim, generator)
        self.log_std = UnitHead((), widths[-1], action_dim, generator)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log_std by the running statistics, [B, action_dim] float32 each."""
        return self._heads(self.body(obs))

    def learn(self, obs: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        """The same for ``rows`` by the whole batch's statistics, which move the running ones."""
        return self._heads(self.body.learn(obs)[rows])

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, tanh of the mean; [B, action_dim] float32 in [-1, 1]."""
        return self.forward(obs)[0].tanh()

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor]:
        share = 0.5 * (1.0 + self.log_std(x).tanh())
        return self.mean(x), LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) * share


class UnitTwinCritic(nn.Module):
    """Two distributions of the return, evaluated together.

    Args:
        obs_dim: width of the observation that the critics see.
        action_dim: width of the action.
        widths: of the residual blocks.
        atoms: of each distribution.
        generator: source of the initial weights.
    """

    def __init__(
        self, obs_dim: int, action_dim: int, widths: Sequence[int], atoms: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.body = UnitBody((MEMBERS,), obs_dim + action_dim, widths, generator)
        self.head = UnitHead((MEMBERS,), widths[-1], atoms, generator)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Logits of both by the running statistics: [B, obs_dim], [B, action_dim] -> [2, B, atoms] float32."""
        logits: Tensor = self.head(self.body(_joined(obs, action)))
        return logits

    def learn(self, obs: Tensor, action: Tensor, rows: slice) -> Tensor:
        """The same for ``rows`` by the whole batch's statistics, which move the running ones."""
        logits: Tensor = self.head(self.body.learn(_joined(obs, action))[:, rows])
        return logits


def _joined(obs: Tensor, action: Tensor) -> Tensor:
    return torch.cat((obs, action), dim=-1).expand(MEMBERS, -1, -1)

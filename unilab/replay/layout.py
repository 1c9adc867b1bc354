"""What a row holds: one transition as packed float32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class RowLayout:
    """obs | action | reward | next_obs | terminated | truncated [| critic_obs | next_critic_obs].

    Critic columns exist only where the env has that group.
    """

    obs_dim: int
    action_dim: int
    critic_dim: int = 0

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Where each column lies in a row."""
        widths = {
            "obs": self.obs_dim,
            "action": self.action_dim,
            "reward": 1,
            "next_obs": self.obs_dim,
            "terminated": 1,
            "truncated": 1,
        }
        if self.critic_dim:
            widths |= {"critic_obs": self.critic_dim, "next_critic_obs": self.critic_dim}
        columns, start = {}, 0
        for name, width in widths.items():
            columns[name] = slice(start, start + width)
            start += width
        return columns

    @cached_property
    def width(self) -> int:
        """Floats in a row."""
        return 2 * self.obs_dim + self.action_dim + 3 + 2 * self.critic_dim

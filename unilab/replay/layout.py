"""What a row holds: one transition as packed float32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

_NAMES = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "critic_obs", "next_critic_obs")


@dataclass(frozen=True)
class RowLayout:
    """obs | action | reward | next_obs | terminated | truncated [| critic_obs | next_critic_obs].

    Critic columns exist only where the env has that group.
    """

    obs_dim: int
    action_dim: int
    critic_dim: int = 0

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Floats of each column, in order."""
        o, c = self.obs_dim, self.critic_dim
        return (o, self.action_dim, 1, o, 1, 1) + ((c, c) if c else ())

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Where each column lies in a row."""
        stops = list(accumulate(self.widths))
        return {name: slice(stop - width, stop) for name, width, stop in zip(_NAMES, self.widths, stops, strict=False)}

    @cached_property
    def width(self) -> int:
        """Floats in a row."""
        return sum(self.widths)

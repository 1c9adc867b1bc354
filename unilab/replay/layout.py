"""What a row holds: one transition, or several of one env in a row, as packed float32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class RowLayout:
    """obs | action | reward | next_obs | terminated | truncated [| critic_obs | next_critic_obs] [| steps].

    Critic columns exist only where the env has that group, ``steps`` only where a row may stand for more than one env
    step: how many it stands for, from 1 to ``n_step``; see ``replay.n_step``.
    """

    obs_dim: int
    action_dim: int
    critic_dim: int = 0
    n_step: int = 1

    @cached_property
    def _widths(self) -> dict[str, int]:
        o, c = self.obs_dim, self.critic_dim
        widths = {"obs": o, "action": self.action_dim, "reward": 1, "next_obs": o, "terminated": 1, "truncated": 1}
        widths |= {"critic_obs": c, "next_critic_obs": c} if c else {}
        return widths | ({"steps": 1} if self.n_step > 1 else {})

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Floats of each column, in order."""
        return tuple(self._widths.values())

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Where each column lies in a row."""
        stops = accumulate(self.widths)
        return {
            name: slice(stop - width, stop) for (name, width), stop in zip(self._widths.items(), stops, strict=True)
        }

    @cached_property
    def width(self) -> int:
        """Floats in a row."""
        return sum(self.widths)

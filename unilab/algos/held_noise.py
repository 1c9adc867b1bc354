"""Exploration noise that is held for a number of steps, so that an env is pushed one way for a while."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab.algos.noise import explore_generator

_EXPONENT = 2.0


def hold_probabilities(longest: int) -> Tensor:
    """Of being held for 1, 2, ... ``longest`` steps, falling with the square of the length; [longest] float32.

    Source: FlashSAC's truncated zeta distribution; Dabney et al. 2021, arXiv:2006.01782 (zeta lengths).
    """
    weights = torch.arange(1, longest + 1, dtype=torch.float64) ** -_EXPONENT
    return (weights / weights.sum()).float()


class HeldNoise:
    """Standard normal noise that is held for a random number of steps, each env on its own; see ``Noise``.

    Args:
        seed: of the run.
        index: of the collector.
        longest: most steps that one noise is held; 1: it is fresh at each step.
        action_dim: width of the action.
    """

    def __init__(self, seed: int, index: int, *, longest: int, action_dim: int) -> None:
        self._generator = explore_generator(seed, index)
        self._probabilities = hold_probabilities(longest)
        self._held = torch.empty(0, action_dim)  # [n, action_dim], n once it is known
        self._left = torch.empty(0, dtype=torch.int64)  # [n], steps that it is still held

    def draw(self, like: Tensor, ended: NDArray[np.bool_]) -> Tensor:
        """What is held, drawn anew where that is over or an episode begins; see ``Noise``.

        Drawn for all envs and taken where it is due, so that one env's episodes do not change another's noise.
        """
        fresh = torch.randn(like.shape, generator=self._generator)
        lengths = 1 + torch.multinomial(self._probabilities, len(like), replacement=True, generator=self._generator)
        if len(self._left) != len(like):
            self._held, self._left = fresh, torch.zeros_like(lengths)
        due = (self._left == 0) | torch.from_numpy(ended)
        self._held = torch.where(due[:, None], fresh, self._held)
        self._left = torch.where(due, lengths, self._left) - 1
        return self._held

    def state(self) -> dict[str, Tensor]:
        """Copies of the generator's state and of what is held."""
        return {"generator": self._generator.get_state(), "held": self._held.clone(), "left": self._left.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``."""
        self._generator.set_state(state["generator"])
        self._held, self._left = state["held"].clone(), state["left"].clone()

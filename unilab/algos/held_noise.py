"""Exploration noise that is held for a number of steps, so that an env is pushed one way for a while."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unilab.algos.noise import ExploreNoise
from unilab.nets.actor import NormalizedActor
from unilab.nets.distributions import squashed_action

_EXPONENT = 2.0


def hold_probabilities(longest: int) -> Tensor:
    """Of being held for 1, 2, ... ``longest`` steps, falling with the square of the length; [longest] float32.

    Source: FlashSAC's truncated zeta distribution; Dabney et al. 2021, arXiv:2006.01782 (zeta lengths).
    """
    weights = torch.arange(1, longest + 1, dtype=torch.float64) ** -_EXPONENT
    return (weights / weights.sum()).float()


class HeldNoisePolicy:
    """A Gaussian actor whose noise is held for a random number of steps, each env on its own; see ``Policy``.

    Args:
        module: normaliser and actor; the actor gives mean and log standard deviation.
        action_dim: width of the action.
        longest: most steps that one noise is held; 1: it is fresh at each step.
        seed: of the run.
        index: of the collector; decides the noise.
    """

    def __init__(self, module: NormalizedActor, action_dim: int, longest: int, *, seed: int, index: int) -> None:
        self.module: nn.Module = module
        self._norm = module.norm
        self._actor = module.actor
        self._noise = ExploreNoise(seed, index)
        self._probabilities = hold_probabilities(longest)
        self._held = torch.empty(0, action_dim)  # [n, action_dim], n once it is known
        self._left = torch.empty(0, dtype=torch.int64)  # [n], steps that it is still held

    @torch.inference_mode()
    def explore(self, obs: Mapping[str, NDArray[np.float32]], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Actions with held noise; an episode begins with noise of its own."""
        mean, log_std = self._actor(self._norm(torch.from_numpy(obs["obs"])))
        self._go_on(mean, torch.from_numpy(ended))
        action: NDArray[np.float32] = squashed_action(mean, log_std, self._held).numpy()
        return action

    @torch.inference_mode()
    def act(self, obs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Actions at the mean; see ``Policy``."""
        action: NDArray[np.float32] = self.module(torch.from_numpy(obs["obs"])).numpy()
        return action

    def explore_state(self) -> dict[str, Tensor]:
        """The noise stream's state and what is held; see ``Policy``."""
        return self._noise.state() | {"held": self._held.clone(), "left": self._left.clone()}

    def load_explore_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``explore_state``."""
        self._noise.load(state)
        self._held, self._left = state["held"].clone(), state["left"].clone()

    def _go_on(self, like: Tensor, ended: Tensor) -> None:
        """Draw for all and take it where it is due, so that one env's episodes do not change another's noise."""
        fresh = self._noise.draw(like)
        lengths = 1 + self._noise.choose(self._probabilities, len(like))
        if len(self._left) != len(like):
            self._held, self._left = fresh, torch.zeros_like(lengths)
        due = (self._left == 0) | ended
        self._held = torch.where(due[:, None], fresh, self._held)
        self._left = torch.where(due, lengths, self._left) - 1

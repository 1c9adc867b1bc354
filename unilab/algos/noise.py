"""The random streams of an algorithm: initial weights, the learner's noise, a collector's exploration.

Torch's global generators are never touched; they belong to whoever runs us.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab.seeding import stream, torch_seed


def network_generator(seed: int) -> torch.Generator:
    """CPU generator of initial weights: the same for the learner and for every policy of a run."""
    return torch.Generator().manual_seed(torch_seed(stream(seed, "network")))


def learner_generator(seed: int, device: torch.device) -> torch.Generator:
    """Generator of the noise that updates take, on the learner's device."""
    return torch.Generator(device).manual_seed(torch_seed(stream(seed, "learner")))


def explore_generator(seed: int, index: int) -> torch.Generator:
    """CPU generator of the noise of collector number ``index``."""
    return torch.Generator().manual_seed(torch_seed(stream(seed, "explore", index)))


class FreshNoise:
    """Normal noise, fresh at each step; see ``Noise``.

    Args:
        seed: of the run.
        index: of the collector.
        scale: standard deviation.
    """

    def __init__(self, seed: int, index: int, *, scale: float = 1.0) -> None:
        self._generator = explore_generator(seed, index)
        self._scale = scale

    def draw(self, like: Tensor, ended: NDArray[np.bool_]) -> Tensor:
        """Noise with the shape of ``like``; see ``Noise``."""
        return torch.randn(like.shape, generator=self._generator).mul_(self._scale)

    def state(self) -> dict[str, Tensor]:
        """A copy of the generator's state."""
        return {"generator": self._generator.get_state()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``."""
        self._generator.set_state(state["generator"])


class ScaledNoise:
    """Normal noise of collector number ``index`` with a standard deviation for each env, drawn anew for every episode.

    Args:
        seed: of the run.
        index: of the collector.
        low: smallest standard deviation.
        high: largest one; they are uniform in between.
    """

    def __init__(self, seed: int, index: int, *, low: float, high: float) -> None:
        self._generator = explore_generator(seed, index)
        self._low, self._high = low, high
        self._sizes = torch.empty(0)  # [n] once n is known

    def draw(self, like: Tensor, ended: NDArray[np.bool_]) -> Tensor:
        """Fresh noise with the shape of ``like``, [n, action_dim] float32.

        Args:
            like: the actions.
            ended: [n], envs whose episode ended in the step before: their next one gets a size of its own.
        """
        fresh = torch.rand(len(like), generator=self._generator) * (self._high - self._low) + self._low
        begins = len(self._sizes) != len(like)
        self._sizes = fresh if begins else torch.where(torch.from_numpy(ended), fresh, self._sizes)
        return torch.randn(like.shape, generator=self._generator) * self._sizes[:, None]

    def state(self) -> dict[str, Tensor]:
        """Copies of the generator's state and of the sizes."""
        return {"generator": self._generator.get_state(), "sizes": self._sizes.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``."""
        self._generator.set_state(state["generator"])
        self._sizes = state["sizes"].clone()

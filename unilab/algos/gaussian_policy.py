"""Acts with a published Gaussian actor, squashed by tanh: what SAC and its kin collect with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unilab.algos.noise import ExploreNoise
from unilab.nets.actor import NormalizedActor
from unilab.nets.distributions import squashed_action


class GaussianPolicy:
    """Explores by sampling the actor's distribution; see ``Policy``.

    Args:
        module: normaliser and actor; the actor gives mean and log standard deviation.
        seed: of the run.
        index: of the collector; decides the noise.
    """

    def __init__(self, module: NormalizedActor, *, seed: int, index: int) -> None:
        self.module: nn.Module = module
        self._norm = module.norm
        self._actor = module.actor
        self._noise = ExploreNoise(seed, index)

    @torch.inference_mode()
    def explore(self, obs: Mapping[str, NDArray[np.float32]], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Sampled actions; see ``Policy``."""
        mean, log_std = self._actor(self._norm(torch.from_numpy(obs["obs"])))
        action: NDArray[np.float32] = squashed_action(mean, log_std, self._noise.draw(mean)).numpy()
        return action

    @torch.inference_mode()
    def act(self, obs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Actions at the mean; see ``Policy``."""
        action: NDArray[np.float32] = self.module(torch.from_numpy(obs["obs"])).numpy()
        return action

    def explore_state(self) -> dict[str, Tensor]:
        """The noise stream's state; see ``Policy``."""
        return self._noise.state()

    def load_explore_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``explore_state``."""
        self._noise.load(state)

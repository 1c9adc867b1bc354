"""What collectors act with: a published actor, and noise to explore with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab.algos.curve import Shape, share_left
from unilab.nets.actor import NormalizedActor
from unilab.nets.distributions import squashed_action


class Noise(Protocol):
    """A collector's own noise, in the normalised action scale."""

    def draw(self, like: Tensor, ended: NDArray[np.bool_]) -> Tensor:
        """The next noise.

        Args:
            like: [n, action_dim] float32, gives the shape.
            ended: [n], envs whose episode ended in the step before.

        Returns:
            [n, action_dim] float32.
        """

    def state(self) -> dict[str, Tensor]:
        """Copies of all that decides later draws."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``."""


class GaussianPolicy:
    """Explores by sampling the actor's distribution, squashed by tanh; see ``Policy``.

    Args:
        module: normaliser and actor; the actor gives mean and log standard deviation.
        noise: standard normal; what the distribution is sampled with.
    """

    def __init__(self, module: NormalizedActor, noise: Noise) -> None:
        self.module = module
        self._sight = module.sight
        self._norm = module.norm
        self._actor = module.actor
        self._noise = noise

    @torch.inference_mode()
    def explore(self, obs: Mapping[str, NDArray[np.float32]], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Sampled actions; see ``Policy``."""
        mean, log_std = self._actor(self._norm(self._sight.of_groups(obs)))
        action: NDArray[np.float32] = squashed_action(mean, log_std, self._noise.draw(mean, ended)).numpy()
        return action

    def at(self, progress: float) -> None:
        """Nothing: how much it explores is the actor's own."""

    @torch.inference_mode()
    def act(self, obs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Actions at the mean; see ``Policy``."""
        action: NDArray[np.float32] = self.module(self._sight.of_groups(obs)).numpy()
        return action

    def explore_state(self) -> dict[str, Tensor]:
        """The noise's state; see ``Policy``."""
        return self._noise.state()

    def load_explore_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``explore_state``."""
        self._noise.load(state)


class NoisyPolicy:
    """Explores by adding noise to a deterministic actor's actions, clipped to [-1, 1]; see ``Policy``.

    Args:
        module: normaliser and actor.
        noise: what is added.
        schedule: how its size falls over the run.
        final: its size at the end of the run, as a share of the first.
    """

    def __init__(self, module: NormalizedActor, noise: Noise, *, schedule: Shape, final: float) -> None:
        self.module = module
        self._sight = module.sight
        self._noise = noise
        self._schedule, self._final = schedule, final
        self._share = 1.0

    @torch.inference_mode()
    def explore(self, obs: Mapping[str, NDArray[np.float32]], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Noisy actions; see ``Policy``."""
        action = self.module(self._sight.of_groups(obs))
        noise = self._noise.draw(action, ended)
        noisy: NDArray[np.float32] = action.add_(noise, alpha=self._share).clamp_(-1.0, 1.0).numpy()
        return noisy

    def at(self, progress: float) -> None:
        """Scale the noise for this share of the run; see ``Policy``."""
        self._share = share_left(self._schedule, self._final, progress)

    @torch.inference_mode()
    def act(self, obs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Actions without noise; see ``Policy``."""
        action: NDArray[np.float32] = self.module(self._sight.of_groups(obs)).numpy()
        return action

    def explore_state(self) -> dict[str, Tensor]:
        """The noise's state; see ``Policy``."""
        return self._noise.state()

    def load_explore_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``explore_state``."""
        self._noise.load(state)

"""What of an observation an actor sees, as one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Groups = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class SeesObs:
    """The `obs` group, as it is."""

    dim: int

    def __call__(self, obs: Tensor, critic_obs: Tensor | None) -> Tensor:
        """Rows [n, dim] of the groups' rows."""
        return obs

    def of_groups(self, groups: Groups) -> Tensor:
        """Rows [n, dim] of observation groups; memory is shared."""
        return torch.from_numpy(groups["obs"])


@dataclass(frozen=True, slots=True)
class SeesAll:
    """The `obs` group and, behind it, the privileged columns: those of the `critic` group behind as many as obs has."""

    dim: int
    obs_dim: int

    def __call__(self, obs: Tensor, critic_obs: Tensor | None) -> Tensor:
        """Rows [n, dim] of the groups' rows."""
        assert critic_obs is not None, "the privileged columns are in the critic group"
        return torch.cat((obs, critic_obs[:, self.obs_dim :]), dim=-1)

    def of_groups(self, groups: Groups) -> Tensor:
        """Rows [n, dim] of observation groups."""
        return self(torch.from_numpy(groups["obs"]), torch.from_numpy(groups["critic"]))


Sight = SeesObs | SeesAll

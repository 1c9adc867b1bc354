"""One env step as the columns of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Transition(Protocol):
    """What a row needs of an env step (``envs.base.EnvStep`` fits)."""

    next_obs: dict[str, NDArray[np.float32]]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


def write_step(
    rows: NDArray[np.float32],
    columns: Mapping[str, slice],
    obs: Mapping[str, NDArray[np.float32]],
    action: NDArray[np.float32],
    step: Transition,
    part: slice,
) -> None:
    """Pack the envs in ``part`` of a step into ``rows`` [k, width], as ``Ring.append`` has them."""
    rows[:, columns["obs"]] = obs["obs"][part]
    rows[:, columns["action"]] = action[part]
    rows[:, columns["reward"].start] = step.reward[part]
    rows[:, columns["next_obs"]] = step.next_obs["obs"][part]
    rows[:, columns["terminated"].start] = step.terminated[part]
    rows[:, columns["truncated"].start] = step.truncated[part]
    if "critic_obs" in columns:
        rows[:, columns["critic_obs"]] = obs["critic"][part]
        rows[:, columns["next_critic_obs"]] = step.next_obs["critic"][part]
    if "steps" in columns:
        rows[:, columns["steps"].start] = 1.0

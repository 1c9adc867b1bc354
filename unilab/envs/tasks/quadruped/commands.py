"""Velocity commands: drawn anew every few seconds, over a range that may grow with success."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array
from unilab.envs.tasks.quadruped.draws import COMMAND, NEXT_COMMAND, between, uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Ranges are symmetric."""

    vx: float = 1.0
    """m/s ahead, the largest."""
    vy: float = 0.5
    """m/s to the left, the largest."""
    yaw: float = 1.0
    """rad/s to the left, the largest."""
    standing: float = 0.15
    """Share of commands that are zero."""
    every_s: tuple[float, float] = (5.0, 10.0)
    """A new command comes after a time drawn from this range."""
    curriculum: bool = False
    """Begin with a part of the ranges; grow it after episodes that follow well, shrink it after those that do not."""
    start_level: float = 0.3
    """Part of the ranges that a curriculum begins with."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("vx", "vy", "yaw") and not 0 <= value <= 10:
                raise ValueError(f"commands.{field.name}={value} must be within [0, 10]")
        if not 0 <= self.standing <= 1:
            raise ValueError(f"commands.standing={self.standing} must be within [0, 1]")
        if not 0 < self.every_s[0] <= self.every_s[1]:
            raise ValueError(f"commands.every_s={self.every_s} must be a range of positive seconds")
        if not 0 < self.start_level <= 1:
            raise ValueError(f"commands.start_level={self.start_level} must be above 0 and at most 1")


_STEP, _GOOD, _BAD = 0.1, 0.7, 0.35
"""Change of the level after an episode; mean of the velocity-tracking term, unweighted, above or below which."""


class CommandSource:
    """Draws commands into ``sim.memory``."""

    def __init__(self, cfg: Commands, dt: float) -> None:
        self._cfg = cfg
        self._dt = dt
        self._range = np.array([cfg.vx, cfg.vy, cfg.yaw])

    def begin(self, sim: Sim) -> None:
        """Make the arrays."""
        n = sim.num_envs
        sim.memory["command"] = np.zeros((n, 3))  # vx, vy, yaw rate
        sim.memory["next_command"] = np.zeros(n, np.int64)  # episode step
        sim.memory["level"] = np.full(n, self._cfg.start_level if self._cfg.curriculum else 1.0)
        sim.memory["tracked"] = np.zeros((n, 2))  # sum of the tracking term over the episode, steps

    def restart(self, sim: Sim, i: int) -> None:
        """First command of an episode of env ``i``."""
        total, steps = sim.memory["tracked"][i]
        if self._cfg.curriculum and steps:
            mean = total / steps
            change = _STEP * (int(mean > _GOOD) - int(mean < _BAD))
            sim.memory["level"][i] = np.clip(sim.memory["level"][i] + change, self._cfg.start_level, 1.0)
        sim.memory["tracked"][i] = 0
        self._draw(sim, np.array([i]), np.zeros(1, np.int64))

    def follow(self, sim: Sim, tracking: Array) -> None:
        """Add up how well the commands were followed in this step, [n]."""
        sim.memory["tracked"] += np.column_stack([tracking, np.ones(sim.num_envs)])

    def update(self, sim: Sim) -> None:
        """New commands where it is time."""
        due = np.flatnonzero(sim.episode_steps >= sim.memory["next_command"])
        if due.size:
            self._draw(sim, due, sim.episode_steps[due])

    def _draw(self, sim: Sim, rows: np.ndarray, now: np.ndarray) -> None:
        key = sim.memory["key"][rows]
        draw = uniform(key, now, COMMAND, 4)
        command = (2 * draw[:, :3] - 1) * self._range * sim.memory["level"][rows, None]
        command[draw[:, 3] < self._cfg.standing] = 0
        sim.memory["command"][rows] = command
        wait = between(*self._cfg.every_s, uniform(key, now, NEXT_COMMAND, 1)[:, 0])
        sim.memory["next_command"][rows] = now + np.maximum(1, np.rint(wait / self._dt).astype(np.int64))

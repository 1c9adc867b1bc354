"""Swimmer-v5: swim forward with three links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Outcome, Rows, Task
from unilab.envs.tasks.camera import Camera
from unilab.envs.tasks.noise import add_uniform_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class Swimmer(Task):
    """Options and results as ``gymnasium.envs.mujoco.swimmer_v5``."""

    camera: ClassVar[Camera] = Camera(elevation=-45.0)

    xml_file: str = "swimmer.xml"
    frame_skip: int = 4
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 1e-4
    reset_noise_scale: float = 0.1
    exclude_current_positions_from_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_uniform_noise(sim, i, rng, self.reset_noise_scale)

    def before(self, sim: Sim) -> Array:
        """[n, 2] x and y of the first link."""
        return sim.qpos[:, :2].copy()

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """Speed, less a cost of control; no state is terminal."""
        position = sim.qpos[:, :2]
        velocity = (position - before) / self.dt(sim)
        forward = self.forward_reward_weight * velocity[:, 0]
        ctrl = self.ctrl_cost_weight * np.square(action).sum(axis=1)
        metrics = {
            "x_position": position[:, 0],
            "y_position": position[:, 1],
            "distance_from_origin": np.sqrt(np.square(position).sum(axis=1)),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_forward": forward,
            "reward_ctrl": -ctrl,
        }
        return Outcome(forward - ctrl, np.zeros(sim.num_envs, np.bool_), metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Positions without x and y, and velocities."""
        start = 2 if self.exclude_current_positions_from_observation else 0
        return {"obs": np.concatenate([sim.qpos[rows, start:], sim.qvel[rows]], axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        start = 2 if self.exclude_current_positions_from_observation else 0
        return [Part("qpos", start), Part("qvel")]

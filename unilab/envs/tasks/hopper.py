"""Hopper-v5: hop forward on one leg without falling."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Outcome, Rows, Task
from unilab.envs.tasks.noise import add_uniform_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class Hopper(Task):
    """Options and results as ``gymnasium.envs.mujoco.hopper_v5``."""

    xml_file: str = "hopper.xml"
    frame_skip: int = 4
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 1e-3
    healthy_reward: float = 1.0
    terminate_when_unhealthy: bool = True
    healthy_state_range: tuple[float, float] = (-100.0, 100.0)
    healthy_z_range: tuple[float, float] = (0.7, float("inf"))
    healthy_angle_range: tuple[float, float] = (-0.2, 0.2)
    reset_noise_scale: float = 5e-3
    exclude_current_positions_from_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_uniform_noise(sim, i, rng, self.reset_noise_scale)

    def before(self, sim: Sim) -> Array:
        """[n] x of the torso."""
        return sim.qpos[:, 0].copy()

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """Speed and a bonus while healthy, less a cost of control; a fall is terminal."""
        x, z = sim.qpos[:, 0], sim.qpos[:, 1]
        x_velocity = (x - before) / self.dt(sim)
        healthy = self._healthy(sim)
        forward = self.forward_reward_weight * x_velocity
        survive = healthy * self.healthy_reward
        ctrl = self.ctrl_cost_weight * np.square(action).sum(axis=1)
        metrics = {
            "x_position": x,
            "z_distance_from_origin": z - sim.model.qpos0[1],
            "x_velocity": x_velocity,
            "reward_forward": forward,
            "reward_ctrl": -ctrl,
            "reward_survive": survive,
        }
        return Outcome(forward + survive - ctrl, ~healthy & self.terminate_when_unhealthy, metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Joint positions without x, and clipped velocities."""
        start = 1 if self.exclude_current_positions_from_observation else 0
        return {"obs": np.concatenate([sim.qpos[rows, start:], np.clip(sim.qvel[rows], -10, 10)], axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        start = 1 if self.exclude_current_positions_from_observation else 0
        return [Part("qpos", start), Part("qvel", clip=(-10, 10))]

    def _healthy(self, sim: Sim) -> NDArray[np.bool_]:
        z, angle = sim.qpos[:, 1], sim.qpos[:, 2]
        state = np.concatenate([sim.qpos[:, 2:], sim.qvel], axis=1)
        (low, high), (low_z, high_z), (low_a, high_a) = (
            self.healthy_state_range,
            self.healthy_z_range,
            self.healthy_angle_range,
        )
        inside = np.asarray(((low < state) & (state < high)).all(axis=1), np.bool_)
        return inside & (low_z < z) & (z < high_z) & (low_a < angle) & (angle < high_a)

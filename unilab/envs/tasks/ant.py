"""Ant-v5: run forward on four legs; the observation has the forces of contacts."""

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
from unilab.envs.tasks.noise import add_normal_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class Ant(Task):
    """Options and results as ``gymnasium.envs.mujoco.ant_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("xpos", "cfrc_ext")
    camera: ClassVar[Camera] = Camera(azimuth=120.0, elevation=-25.0)

    xml_file: str = "ant.xml"
    frame_skip: int = 5
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 0.5
    contact_cost_weight: float = 5e-4
    healthy_reward: float = 1.0
    main_body: int | str = 1
    terminate_when_unhealthy: bool = True
    healthy_z_range: tuple[float, float] = (0.2, 1.0)
    contact_force_range: tuple[float, float] = (-1.0, 1.0)
    reset_noise_scale: float = 0.1
    exclude_current_positions_from_observation: bool = True
    include_cfrc_ext_in_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_normal_noise(sim, i, rng, self.reset_noise_scale)

    def before(self, sim: Sim) -> Array:
        """[n, 2] x and y of the main body."""
        return sim.data["xpos"][:, sim.model.body(self.main_body).id, :2].copy()

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """Speed and a bonus while healthy, less costs of control and contact; a fall or a jump is terminal."""
        velocity = (self.before(sim) - before) / self.dt(sim)
        low, high = self.healthy_z_range
        z = sim.qpos[:, 2]
        finite = np.isfinite(sim.qpos).all(axis=1) & np.isfinite(sim.qvel).all(axis=1)
        healthy = finite & (low <= z) & (z <= high)
        forward = velocity[:, 0] * self.forward_reward_weight
        survive = healthy * self.healthy_reward
        ctrl = self.ctrl_cost_weight * np.square(action).sum(axis=1)
        contact = self.contact_cost_weight * np.square(self._forces(sim, slice(None))).sum(axis=1)
        metrics = {
            "x_position": sim.qpos[:, 0],
            "y_position": sim.qpos[:, 1],
            "distance_from_origin": np.sqrt(np.square(sim.qpos[:, :2]).sum(axis=1)),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_forward": forward,
            "reward_ctrl": -ctrl,
            "reward_contact": -contact,
            "reward_survive": survive,
        }
        reward = forward + survive - (ctrl + contact)
        return Outcome(reward, ~healthy & self.terminate_when_unhealthy, metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Positions without x and y, velocities, clipped contact forces of all bodies but the world."""
        start = 2 if self.exclude_current_positions_from_observation else 0
        parts = [sim.qpos[rows, start:], sim.qvel[rows]]
        if self.include_cfrc_ext_in_observation:
            parts.append(self._forces(sim, rows)[:, 6:])
        return {"obs": np.concatenate(parts, axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        start = 2 if self.exclude_current_positions_from_observation else 0
        forces = [Part("cfrc_ext", 6, clip=self.contact_force_range)] if self.include_cfrc_ext_in_observation else []
        return [Part("qpos", start), Part("qvel"), *forces]

    def _forces(self, sim: Sim, rows: Rows) -> Array:
        forces = sim.data["cfrc_ext"][rows]
        return np.clip(forces, *self.contact_force_range).reshape(len(forces), -1)

"""Humanoid-v5: walk forward on two legs without falling."""

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
from unilab.envs.tasks.humanoid_view import humanoid_observation, humanoid_recipe
from unilab.envs.tasks.noise import add_uniform_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class Humanoid(Task):
    """Options and results as ``gymnasium.envs.mujoco.humanoid_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("xipos", "cinert", "cvel", "qfrc_actuator", "cfrc_ext")
    camera: ClassVar[Camera] = Camera(azimuth=120.0)

    xml_file: str = "humanoid.xml"
    frame_skip: int = 5
    forward_reward_weight: float = 1.25
    ctrl_cost_weight: float = 0.1
    contact_cost_weight: float = 5e-7
    contact_cost_range: tuple[float, float] = (float("-inf"), 10.0)
    healthy_reward: float = 5.0
    terminate_when_unhealthy: bool = True
    healthy_z_range: tuple[float, float] = (1.0, 2.0)
    reset_noise_scale: float = 1e-2
    exclude_current_positions_from_observation: bool = True
    include_cinert_in_observation: bool = True
    include_cvel_in_observation: bool = True
    include_qfrc_actuator_in_observation: bool = True
    include_cfrc_ext_in_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_uniform_noise(sim, i, rng, self.reset_noise_scale)

    def before(self, sim: Sim) -> Array:
        """[n, 2] x and y of the centre of mass."""
        mass = sim.model.body_mass
        centre: Array = mass @ sim.data["xipos"][:, :, :2] / mass.sum()
        return centre

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """Speed and a bonus while healthy, less costs of control and contact; a fall is terminal."""
        velocity = (self.before(sim) - before) / self.dt(sim)
        low, high = self.healthy_z_range
        z = sim.qpos[:, 2]
        healthy = (low < z) & (z < high)
        forward = self.forward_reward_weight * velocity[:, 0]
        survive = healthy * self.healthy_reward
        ctrl = self.ctrl_cost_weight * np.square(sim.ctrl).sum(axis=1)
        forces = sim.data["cfrc_ext"].reshape(sim.num_envs, -1)
        contact = np.clip(self.contact_cost_weight * np.square(forces).sum(axis=1), *self.contact_cost_range)
        metrics = {
            "x_position": sim.qpos[:, 0],
            "y_position": sim.qpos[:, 1],
            "distance_from_origin": np.sqrt(np.square(sim.qpos[:, :2]).sum(axis=1)),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_survive": survive,
            "reward_forward": forward,
            "reward_ctrl": -ctrl,
            "reward_contact": -contact,
        }
        reward = forward + survive - (ctrl + contact)
        return Outcome(reward, ~healthy & self.terminate_when_unhealthy, metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """See ``humanoid_observation``."""
        return {"obs": humanoid_observation(self, sim, rows)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        return humanoid_recipe(self)

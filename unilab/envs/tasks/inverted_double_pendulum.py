"""InvertedDoublePendulum-v5: keep two poles upright, one on the other, on a cart."""

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
class InvertedDoublePendulum(Task):
    """Options and results as ``gymnasium.envs.mujoco.inverted_double_pendulum_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("site_xpos", "qfrc_constraint")
    camera: ClassVar[Camera] = Camera(distance=3.5, elevation=-10.0, lookat=(0.0, 0.0, 0.4), follow=False)

    xml_file: str = "inverted_double_pendulum.xml"
    frame_skip: int = 5
    healthy_reward: float = 10.0
    reset_noise_scale: float = 0.1

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_normal_noise(sim, i, rng, self.reset_noise_scale)

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: None) -> Outcome:
        """A bonus, less the tip's distance from upright and the poles' speeds; a tip below 1 m is terminal."""
        tip = sim.data["site_xpos"][:, 0]
        x, y = tip[:, 0], tip[:, 2]
        v1, v2 = sim.qvel[:, 1], sim.qvel[:, 2]
        terminated = y <= 1
        distance = 0.01 * x**2 + (y - 2) ** 2
        speed = 1e-3 * v1**2 + 5e-3 * v2**2
        survive = self.healthy_reward * ~terminated
        metrics = {"reward_survive": survive, "distance_penalty": -distance, "velocity_penalty": -speed}
        return Outcome(survive - distance - speed, terminated, metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Cart position, sines and cosines of the angles, clipped velocities and constraint force on the cart."""
        angles = sim.qpos[rows, 1:]
        parts = [
            sim.qpos[rows, :1],
            np.sin(angles),
            np.cos(angles),
            np.clip(sim.qvel[rows], -10, 10),
            np.clip(sim.data["qfrc_constraint"][rows, :1], -10, 10),
        ]
        return {"obs": np.concatenate(parts, axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        return [
            Part("qpos", 0, 1),
            Part("qpos", 1, function="sin"),
            Part("qpos", 1, function="cos"),
            Part("qvel", clip=(-10, 10)),
            Part("qfrc_constraint", 0, 1, clip=(-10, 10)),
        ]

"""InvertedPendulum-v5: keep a pole upright on a cart."""

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
class InvertedPendulum(Task):
    """Options and results as ``gymnasium.envs.mujoco.inverted_pendulum_v5``."""

    camera: ClassVar[Camera] = Camera(distance=2.2, elevation=-10.0, lookat=(0.0, 0.0, 0.2), follow=False)

    xml_file: str = "inverted_pendulum.xml"
    frame_skip: int = 2
    reset_noise_scale: float = 0.01

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_uniform_noise(sim, i, rng, self.reset_noise_scale)

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: None) -> Outcome:
        """1 while the pole is within 0.2 rad; beyond is terminal."""
        terminated = ~np.isfinite(self.observe(sim, slice(None))["obs"]).all(axis=1) | (np.abs(sim.qpos[:, 1]) > 0.2)
        reward = np.where(terminated, 0.0, 1.0)
        return Outcome(reward, terminated, {"reward_survive": reward})

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Positions and velocities."""
        return {"obs": np.concatenate([sim.qpos[rows], sim.qvel[rows]], axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        return [Part("qpos"), Part("qvel")]

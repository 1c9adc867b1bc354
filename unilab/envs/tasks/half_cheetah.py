"""HalfCheetah-v5: run forward."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Outcome, Rows, Task
from unilab.envs.tasks.noise import add_normal_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class HalfCheetah(Task):
    """Options and results as ``gymnasium.envs.mujoco.half_cheetah_v5``."""

    xml_file: str = "half_cheetah.xml"
    frame_skip: int = 5
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 0.1
    reset_noise_scale: float = 0.1
    exclude_current_positions_from_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_normal_noise(sim, i, rng, self.reset_noise_scale)

    def before(self, sim: Sim) -> Array:
        """[n] x of the torso."""
        return sim.qpos[:, 0].copy()

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """Speed, less a cost of control; no state is terminal."""
        x = sim.qpos[:, 0]
        x_velocity = (x - before) / self.dt(sim)
        forward = self.forward_reward_weight * x_velocity
        ctrl = self.ctrl_cost_weight * np.square(action).sum(axis=1)
        metrics = {"x_position": x, "x_velocity": x_velocity, "reward_forward": forward, "reward_ctrl": -ctrl}
        return Outcome(forward - ctrl, np.zeros(sim.num_envs, np.bool_), metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Joint positions without x, and velocities."""
        start = 1 if self.exclude_current_positions_from_observation else 0
        return {"obs": np.concatenate([sim.qpos[rows, start:], sim.qvel[rows]], axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        start = 1 if self.exclude_current_positions_from_observation else 0
        return [Part("qpos", start), Part("qvel")]

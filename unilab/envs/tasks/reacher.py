"""Reacher-v5: bring the fingertip of a planar arm to a target."""

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
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class Reacher(Task):
    """Options and results as ``gymnasium.envs.mujoco.reacher_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("xpos",)
    max_episode_steps: ClassVar[int | None] = 50
    camera: ClassVar[Camera] = Camera(distance=0.65, elevation=-90.0, lookat=(0.0, 0.0, 0.0), follow=False)

    xml_file: str = "reacher.xml"
    frame_skip: int = 2
    reward_dist_weight: float = 1.0
    reward_control_weight: float = 1.0

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``; the target is uniform in a disc of 0.2 m."""
        sim.qpos[i] += rng.uniform(-0.1, 0.1, sim.model.nq)
        while True:
            goal = rng.uniform(-0.2, 0.2, 2)
            if np.linalg.norm(goal) < 0.2:
                break
        sim.qpos[i, -2:] = goal
        sim.qvel[i] += rng.uniform(-0.005, 0.005, sim.model.nv)
        sim.qvel[i, -2:] = 0

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: None) -> Outcome:
        """Costs of distance and control; no state is terminal."""
        distance = np.sqrt(np.square(self._to_target(sim, slice(None))).sum(axis=1))
        dist = -distance * self.reward_dist_weight
        ctrl = -np.square(action).sum(axis=1) * self.reward_control_weight
        metrics = {"reward_dist": dist, "reward_ctrl": ctrl}
        return Outcome(dist + ctrl, np.zeros(sim.num_envs, np.bool_), metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """Cosines and sines of the joints, target, joint velocities, vector from target to fingertip."""
        theta = sim.qpos[rows, :2]
        parts = [
            np.cos(theta),
            np.sin(theta),
            sim.qpos[rows, 2:],
            sim.qvel[rows, :2],
            self._to_target(sim, rows)[:, :2],
        ]
        return {"obs": np.concatenate(parts, axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        tip, target = (3 * model.body(name).id for name in ("fingertip", "target"))
        return [
            Part("qpos", 0, 2, function="cos"),
            Part("qpos", 0, 2, function="sin"),
            Part("qpos", 2),
            Part("qvel", 0, 2),
            Part("xpos", tip, tip + 2, minus=target),
        ]

    def _to_target(self, sim: Sim, rows: Rows) -> Array:
        xpos = sim.data["xpos"]
        difference: Array = xpos[rows, sim.model.body("fingertip").id] - xpos[rows, sim.model.body("target").id]
        return difference

"""Pusher-v5: push a cylinder to a goal with a seven-joint arm."""

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
class Pusher(Task):
    """Options and results as ``gymnasium.envs.mujoco.pusher_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("xpos",)
    max_episode_steps: ClassVar[int | None] = 100
    camera: ClassVar[Camera] = Camera(
        distance=2.2, azimuth=-60.0, elevation=-35.0, lookat=(0.1, -0.4, 0.0), follow=False
    )

    xml_file: str = "pusher_v5.xml"
    frame_skip: int = 5
    reward_near_weight: float = 0.5
    reward_dist_weight: float = 1.0
    reward_control_weight: float = 0.1

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``; the cylinder starts at least 0.17 m from the goal, which is at 0, 0."""
        while True:
            cylinder = np.concatenate([rng.uniform(-0.3, 0, 1), rng.uniform(-0.2, 0.2, 1)])
            if np.linalg.norm(cylinder) > 0.17:
                break
        sim.qpos[i, -4:-2] = cylinder
        sim.qpos[i, -2:] = 0
        sim.qvel[i] += rng.uniform(-0.005, 0.005, sim.model.nv)
        sim.qvel[i, -4:] = 0

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: None) -> Outcome:
        """Costs of two distances, arm to object and object to goal, and of control; no state is terminal."""
        arm, thing, goal = self._places(sim, slice(None))
        near = -np.sqrt(np.square(thing - arm).sum(axis=1)) * self.reward_near_weight
        dist = -np.sqrt(np.square(thing - goal).sum(axis=1)) * self.reward_dist_weight
        ctrl = -np.square(action).sum(axis=1) * self.reward_control_weight
        metrics = {"reward_dist": dist, "reward_ctrl": ctrl, "reward_near": near}
        return Outcome(dist + ctrl + near, np.zeros(sim.num_envs, np.bool_), metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """The arm's positions and velocities, then where tip, object and goal are."""
        parts = [sim.qpos[rows, :7], sim.qvel[rows, :7], *self._places(sim, rows)]
        return {"obs": np.concatenate(parts, axis=1)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        places = [3 * model.body(name).id for name in ("tips_arm", "object", "goal")]
        return [Part("qpos", 0, 7), Part("qvel", 0, 7), *(Part("xpos", place, place + 3) for place in places)]

    def _places(self, sim: Sim, rows: Rows) -> list[Array]:
        return [sim.data["xpos"][rows, sim.model.body(name).id] for name in ("tips_arm", "object", "goal")]

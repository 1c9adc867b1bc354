"""What the robot measures, with noise and without, and what only the critics see.

A frame is gyro 3, projected gravity 3, joint angles from nominal 12, joint velocities 12, last action 12. Of each env
two are kept, with noise and without, and the last ``history`` frames before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Rows
from unilab.envs.tasks.quadruped.draws import NOISE, uniform
from unilab.envs.tasks.quadruped.robot import JOINTS
from unilab.envs.tasks.quadruped.scene import Scene

MEASURED, FRAME = 30, 42
NOISY, CLEAN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Half-widths of uniform noise on what is measured, drawn anew in each step; 0: none."""

    gyro: float = 0.2  # rad/s
    gravity: float = 0.05
    joint_angle: float = 0.01  # rad
    joint_velocity: float = 0.5  # rad/s

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) < math.inf:
                raise ValueError(f"noise.{field.name}={getattr(self, field.name)} must be 0 or more, and finite")

    def widths(self) -> Array:
        """[30] in a frame's order."""
        legs = [self.joint_angle] * JOINTS + [self.joint_velocity] * JOINTS
        return np.array([self.gyro] * 3 + [self.gravity] * 3 + legs)


def make_frames(sim: Sim, history: int) -> None:
    """Arrays for frames in ``sim.memory``."""
    sim.memory["frame"] = np.zeros((sim.num_envs, 2, FRAME))
    sim.memory["history"] = np.zeros((sim.num_envs, 2, history, FRAME))


def keep_frames(sim: Sim) -> None:
    """The present frame joins the history; newest first."""
    history = sim.memory["history"]
    history[:, :, 1:] = history[:, :, :-1].copy()
    history[:, :, :1] = sim.memory["frame"][:, :, None]


def measure(sim: Sim, scene: Scene, widths: Array, rows: Rows) -> None:
    """Write the present frames of some envs; where an episode begins, the history is that frame repeated."""
    memory, data = sim.memory, sim.data["sensordata"][rows]
    clean = np.concatenate(
        [
            data[:, scene.gyro],
            -data[:, scene.up],
            sim.qpos[rows][:, scene.qpos] - scene.nominal,
            sim.qvel[rows][:, scene.qvel],
            memory["action"][rows],
        ],
        axis=1,
    )
    noise = uniform(memory["key"][rows], sim.episode_steps[rows], NOISE, MEASURED)
    noisy = clean.copy()
    noisy[:, :MEASURED] += (2 * noise - 1) * widths
    frames = np.stack([noisy, clean], axis=1)
    memory["frame"][rows] = frames
    new = sim.episode_steps[rows] == 0
    if new.any():
        envs = np.arange(sim.num_envs)[rows][new]
        memory["history"][envs] = frames[new][:, :, None]


def seen(sim: Sim, rows: Rows, kind: int) -> Array:
    """[k, 45 + 42 history] frame, command, history."""
    frame, history = sim.memory["frame"][rows, kind], sim.memory["history"][rows, kind]
    return np.concatenate([frame, sim.memory["command"][rows], history.reshape(len(frame), -1)], axis=1)


def privileged(sim: Sim, scene: Scene, rows: Rows) -> Array:
    """[k, 24] base velocity 3, contacts 4, heights of the feet 4 and of the trunk over 9 points, parameters 4.

    The points are the trunk's own and its neighbours on a square grid of 0.25 m, turned with the robot.
    """
    memory = sim.memory
    contacts = (sim.data["sensordata"][rows][:, scene.contacts] > 0).astype(np.float64)
    feet = sim.data["geom_xpos"][rows][:, scene.feet]
    feet_heights = feet[:, :, 2] - scene.ground.height(feet[:, :, 0], feet[:, :, 1])
    parts = [
        body_velocity(sim, rows),
        contacts,
        feet_heights,
        _trunk_heights(sim, scene, rows),
        memory["parameters"][rows],
    ]
    return np.concatenate(parts, axis=1)


def body_velocity(sim: Sim, rows: Rows) -> Array:
    """[k, 3] m/s of the trunk, in its own axes."""
    return rotate_back(sim.qpos[rows, 3:7], sim.qvel[rows, :3])


def rotate_back(quat: Array, vector: Array) -> Array:
    """World vectors [k, 3] in the axes of bodies with orientations [k, 4]."""
    (w, x, y, z), (a, b, c) = quat.T, vector.T
    # Twice the cross product with the quaternion's axis; numpy's own cross costs 5 % of a step.
    u, v, t = 2 * (b * z - c * y), 2 * (c * x - a * z), 2 * (a * y - b * x)
    return np.stack([a + w * u + v * z - t * y, b + w * v + t * x - u * z, c + w * t + u * y - v * x], axis=1)


def _trunk_heights(sim: Sim, scene: Scene, rows: Rows) -> Array:
    pos, (w, x, y, z) = sim.qpos[rows, :3], sim.qpos[rows, 3:7].T
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))[:, None]
    dx, dy = (axis.ravel() * 0.25 for axis in np.meshgrid((-1, 0, 1), (-1, 0, 1)))
    px = pos[:, :1] + np.cos(yaw) * dx - np.sin(yaw) * dy
    py = pos[:, 1:2] + np.sin(yaw) * dx + np.cos(yaw) * dy
    return np.asarray(pos[:, 2:3] - scene.ground.height(px, py))

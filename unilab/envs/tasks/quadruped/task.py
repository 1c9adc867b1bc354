"""QuadrupedVelocity: a four-legged robot follows a commanded velocity, at 50 Hz over substeps of 4 ms.

An action in [-1, 1] is a joint target: nominal + action x reach, clipped to the joint's range. It arrives after the
env's own delay; until then the servos follow the target before. Sensors, contacts, torques and feet are read as of the
last substep's start, 4 ms before the end of the step, as hardware would have them; joint angles and the trunk's
velocity are of the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Deployment, Outcome, Rows, Task
from unilab.envs.tasks.camera import Camera
from unilab.envs.tasks.quadruped import measure
from unilab.envs.tasks.quadruped.commands import Commands, CommandSource
from unilab.envs.tasks.quadruped.draws import new_key
from unilab.envs.tasks.quadruped.ground import Ground, make_ground
from unilab.envs.tasks.quadruped.measure import Noise
from unilab.envs.tasks.quadruped.mirror import make_mirror
from unilab.envs.tasks.quadruped.rewards import Motion, Weights, terms, weighted
from unilab.envs.tasks.quadruped.robot import JOINTS, LEGS, load_robot
from unilab.envs.tasks.quadruped.scene import TIMESTEP_S, Scene, build_scene
from unilab.envs.tasks.quadruped.variation import NoPushes, Pushes, RandomPushes, RobotVariation, Variation, make_pushes
from unilab.mirror import Mirror

SUBSTEPS = 5
DT = SUBSTEPS * TIMESTEP_S


@dataclass(frozen=True, kw_only=True)
class QuadrupedVelocity(Task):
    """Options; those with several values are mappings in ``--env-kwargs``."""

    fields: ClassVar[tuple[str, ...]] = ("sensordata", "geom_xpos", "actuator_force")
    max_episode_steps: ClassVar[int | None] = 1000
    camera: ClassVar[Camera] = Camera(distance=1.3, azimuth=130)
    frame_skip: ClassVar[int] = SUBSTEPS  # type: ignore[misc]  # no option here: 50 Hz

    robot: str = "quadruped"
    """A robot that comes with unilab, or the path of a YAML file."""
    history: int = 2
    """Frames before the present one that the policy sees."""
    fall_tilt: float = 0.8
    """rad: more is a fall."""
    fall_height: float = 0.6
    """Part of the nominal height of the trunk over the ground: less is a fall."""
    rewards: Weights = field(default_factory=Weights)
    commands: Commands = field(default_factory=Commands)
    noise: Noise = field(default_factory=Noise)
    variation: Variation = field(default_factory=Variation)
    pushes: Pushes = field(default_factory=Pushes)
    ground: Ground = field(default_factory=Ground)

    def __post_init__(self) -> None:
        if not 0 <= self.history <= 20:
            raise ValueError(f"history={self.history} must be within [0, 20]")
        if not 0 < self.fall_tilt < math.pi:
            raise ValueError(f"fall_tilt={self.fall_tilt} must be within (0, pi)")
        if not 0 <= self.fall_height < 1:
            raise ValueError(f"fall_height={self.fall_height} must be within [0, 1)")

    @cached_property
    def scene(self) -> Scene:
        """Robot and ground, read when first needed."""
        return build_scene(*load_robot(self.robot), make_ground(self.ground))

    def load(self) -> mujoco.MjModel:
        """See ``Task``."""
        return self.scene.model

    def action_bounds(self, model: mujoco.MjModel) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Parts of the reach."""
        return -np.ones(JOINTS, np.float32), np.ones(JOINTS, np.float32)

    def begin(self, sim: Sim) -> None:
        """See ``Task``."""
        n, memory = sim.num_envs, sim.memory
        memory["key"] = np.zeros(n, np.int64)
        memory["action"] = np.zeros((n, JOINTS))
        memory["air_s"] = np.zeros((n, LEGS))
        measure.make_frames(sim, self.history)
        self._source.begin(sim)
        self._robots.begin(sim)
        self._pushing.begin(sim)

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """On the ground in nearly the nominal pose, heading anywhere."""
        scene, memory = self.scene, sim.memory
        memory["key"][i] = new_key(rng)
        memory["action"][i] = 0
        memory["air_s"][i] = 0
        x, y = rng.uniform(-1, 1, 2) * scene.ground.start_range
        sim.qpos[i, :7] = scene.place(x, y, rng.uniform(-math.pi, math.pi))
        sim.qpos[i, scene.qpos] = scene.nominal + rng.uniform(-0.05, 0.05, JOINTS)
        sim.qvel[i, :6] = rng.uniform(-0.1, 0.1, 6)
        sim.ctrl[i, scene.ctrl] = scene.nominal
        self._robots.restart(sim, i, rng)
        self._source.restart(sim, i)
        self._pushing.restart(sim, i)

    def before(self, sim: Sim) -> Array:
        """[n, 12] the action before; the present frame becomes the past."""
        measure.keep_frames(sim)
        return sim.memory["action"].copy()

    def advance(self, sim: Sim, action: NDArray[np.float32]) -> None:
        """Targets reach the servos after each env's delay."""
        scene, delay = self.scene, sim.memory["delay"]
        target = np.clip(scene.nominal + action * scene.reach, scene.low, scene.high)
        done = 0
        for substeps in np.unique(delay):
            if substeps > done:
                sim.step(int(substeps) - done)
                done = int(substeps)
            rows = np.flatnonzero(delay == substeps)
            sim.ctrl[rows[:, None], scene.ctrl] = target[rows]
        if done < SUBSTEPS:
            sim.step(SUBSTEPS - done)
        sim.memory["action"][:] = action

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Array) -> Outcome:
        """The sum of the weighted terms; a fall is terminal."""
        motion = self._motion(sim, before)
        values = terms(motion)
        rewards = weighted(values, self.rewards)
        self._source.follow(sim, values["velocity"])
        error = motion.command - np.column_stack([motion.velocity[:, :2], motion.rates[:, 2]])
        metrics = {f"reward_{name}": value for name, value in rewards.items()}
        metrics["velocity_error"] = np.sqrt(np.square(error[:, :2]).sum(axis=1))
        metrics["yaw_error"] = np.abs(error[:, 2])
        metrics["command_level"] = sim.memory["level"]
        return Outcome(sum(rewards.values(), np.zeros(sim.num_envs)), motion.fallen > 0, metrics)

    def update(self, sim: Sim) -> None:
        """Commands and pushes that are due."""
        self._source.update(sim)
        self._pushing.update(sim)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """What the robot measures, its command, the frames before; for critics that without noise, and the truth."""
        measure.measure(sim, self.scene, self._widths, rows)
        clean = measure.seen(sim, rows, measure.CLEAN)
        critic = np.concatenate([clean, measure.privileged(sim, self.scene, rows)], axis=1)
        return {"obs": measure.seen(sim, rows, measure.NOISY), "critic": critic}

    def deployment(self) -> Deployment:
        """See ``Task``; no noise and no delay, as ``run_policy.py`` reads and writes ``MjData``."""
        return Deployment(
            script=Path(__file__).with_name("run_policy.py"),
            qpos=self.scene.start(),
            facts=self.scene.facts() | {"history": self.history},
        )

    def mirror(self) -> Mirror | None:
        """See ``Task``; None for a robot whose sides are not alike."""
        return make_mirror(self.scene, self.history)

    def _motion(self, sim: Sim, action_before: Array) -> Motion:
        scene, memory, data = self.scene, sim.memory, sim.data["sensordata"]
        angles = sim.qpos[:, scene.qpos]
        quat = sim.qpos[:, 3:7]
        gravity = measure.rotate_back(quat, np.tile([0.0, 0.0, -1.0], (sim.num_envs, 1)))
        touching = data[:, scene.contacts] > 0
        landed = touching & (memory["air_s"] > 0)
        landed_after = np.where(landed, memory["air_s"], np.nan)
        memory["air_s"][:] = np.where(touching, 0, memory["air_s"] + DT)
        foot_speed = np.sqrt(np.square(data[:, scene.foot_velocities][:, :, :2]).sum(axis=2))
        height = sim.qpos[:, 2] - scene.ground.height(sim.qpos[:, 0], sim.qpos[:, 1])
        fallen = (gravity[:, 2] > -math.cos(self.fall_tilt)) | (height < self.fall_height * scene.height)
        return Motion(
            command=memory["command"],
            velocity=measure.body_velocity(sim, slice(None)),
            rates=sim.qvel[:, 3:6],
            gravity=gravity,
            torque=sim.data["actuator_force"][:, scene.ctrl],
            joint_velocity=sim.qvel[:, scene.qvel],
            deviation=angles - scene.nominal,
            beyond=np.maximum(scene.soft_low - angles, 0) + np.maximum(angles - scene.soft_high, 0),
            action_change=memory["action"] - action_before,
            landed_after=landed_after,
            in_the_air=memory["air_s"].copy(),
            slipping=foot_speed * touching,
            fallen=fallen.astype(np.float64),
        )

    @cached_property
    def _widths(self) -> Array:
        return self.noise.widths()

    @cached_property
    def _source(self) -> CommandSource:
        return CommandSource(self.commands, DT)

    @cached_property
    def _robots(self) -> RobotVariation:
        return RobotVariation(self.variation, self.scene)

    @cached_property
    def _pushing(self) -> RandomPushes | NoPushes:
        return make_pushes(self.pushes, DT)

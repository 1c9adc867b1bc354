"""Pushes, and robots that differ from one another: friction, mass and servo gains of each simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.quadruped.draws import NEXT_PUSH, PUSH, between, uniform
from unilab.envs.tasks.quadruped.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """Drawn for each env at the start of an episode; (1, 1) leaves the model's own value."""

    friction: tuple[float, float] = (1.0, 1.0)
    """Factor on the sliding friction of the feet."""
    mass: tuple[float, float] = (1.0, 1.0)
    """Factor on mass and inertia of the trunk."""
    servo_gain: tuple[float, float] = (1.0, 1.0)
    """Factor on the stiffness of all servos."""
    delay_s: tuple[float, float] = (0.0, 0.02)
    """Time between an action and the servos' targets; rounded to whole substeps of 4 ms, at most one step of 20 ms."""

    def __post_init__(self) -> None:
        for name in ("friction", "mass", "servo_gain"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise ValueError(f"variation.{name}={(low, high)} must be a range of positive numbers")
        if not 0 <= self.delay_s[0] <= self.delay_s[1] <= 0.02:
            raise ValueError(f"variation.delay_s={self.delay_s} must be a range within [0, 0.02]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushes:
    """Sudden changes of the trunk's velocity."""

    speed: float = 0.0
    """m/s, the largest along x and along y; 0: no pushes."""
    every_s: tuple[float, float] = (5.0, 10.0)
    """The next push comes after a time drawn from this range."""

    def __post_init__(self) -> None:
        if not 0 <= self.speed < math.inf:
            raise ValueError(f"pushes.speed={self.speed} must be 0 or more, and finite")
        if not 0 < self.every_s[0] <= self.every_s[1]:
            raise ValueError(f"pushes.every_s={self.every_s} must be a range of positive seconds")


class RobotVariation:
    """Draws parameters into ``sim.memory["parameters"]`` [n, 4]: friction, mass, gain as factors, delay in s."""

    def __init__(self, cfg: Variation, scene: Scene) -> None:
        self._cfg = cfg
        self._scene = scene
        self._substep = float(scene.model.opt.timestep)

    def begin(self, sim: Sim) -> None:
        """Make the arrays; model fields get values per simulation only where they differ."""
        sim.memory["parameters"] = np.ones((sim.num_envs, 4))
        sim.memory["delay"] = np.zeros(sim.num_envs, np.int64)  # substeps
        for name in self._fields():
            sim.expand(name)

    def restart(self, sim: Sim, i: int, rng: Generator) -> None:
        """A new robot for env ``i``."""
        cfg, scene, model = self._cfg, self._scene, self._scene.model
        friction, mass, gain, delay = (
            rng.uniform(*pair) for pair in (cfg.friction, cfg.mass, cfg.servo_gain, cfg.delay_s)
        )
        substeps = round(delay / self._substep)
        sim.memory["delay"][i] = substeps
        sim.memory["parameters"][i] = friction, mass, gain, substeps * self._substep
        varied = self._fields()
        if "geom_friction" in varied:
            sim.expand("geom_friction")[i, scene.feet, 0] = model.geom_friction[scene.feet, 0] * friction
        if "actuator_gainprm" in varied:
            # The stiffness is in both: force = gain x target - gain x angle - damping x velocity.
            sim.expand("actuator_gainprm")[i, :, 0] = model.actuator_gainprm[:, 0] * gain
            sim.expand("actuator_biasprm")[i, :, 1] = model.actuator_biasprm[:, 1] * gain
        if "body_mass" in varied:
            sim.expand("body_mass")[i, scene.trunk] = model.body_mass[scene.trunk] * mass
            sim.expand("body_inertia")[i, scene.trunk] = model.body_inertia[scene.trunk] * mass
            sim.set_const(np.array([i]))

    def _fields(self) -> tuple[str, ...]:
        by_option = {
            "friction": ("geom_friction",),
            "mass": ("body_mass", "body_inertia"),
            "servo_gain": ("actuator_gainprm", "actuator_biasprm"),
        }
        return tuple(name for key, names in by_option.items() if getattr(self._cfg, key) != (1, 1) for name in names)


class NoPushes:
    """Nothing happens."""

    def begin(self, sim: Sim) -> None:
        """See ``RandomPushes``."""

    def restart(self, sim: Sim, i: int) -> None:
        """See ``RandomPushes``."""

    def update(self, sim: Sim) -> None:
        """See ``RandomPushes``."""


class RandomPushes:
    """Adds to the trunk's velocity at times of its own in each env."""

    def __init__(self, cfg: Pushes, dt: float) -> None:
        self._cfg = cfg
        self._dt = dt

    def begin(self, sim: Sim) -> None:
        """Make the arrays."""
        sim.memory["next_push"] = np.zeros(sim.num_envs, np.int64)  # episode step

    def restart(self, sim: Sim, i: int) -> None:
        """Plan the first push of an episode."""
        self._plan(sim, np.array([i]), np.zeros(1, np.int64))

    def update(self, sim: Sim) -> None:
        """Push where it is time."""
        due = np.flatnonzero(sim.episode_steps >= sim.memory["next_push"])
        if due.size:
            now = sim.episode_steps[due]
            draw = uniform(sim.memory["key"][due], now, PUSH, 2)
            sim.qvel[due, :2] += (2 * draw - 1) * self._cfg.speed
            self._plan(sim, due, now)

    def _plan(self, sim: Sim, rows: np.ndarray, now: np.ndarray) -> None:
        wait = between(*self._cfg.every_s, uniform(sim.memory["key"][rows], now, NEXT_PUSH, 1)[:, 0])
        sim.memory["next_push"][rows] = now + np.maximum(1, np.rint(wait / self._dt).astype(np.int64))


def make_pushes(cfg: Pushes, dt: float) -> RandomPushes | NoPushes:
    """The pushes that a config asks for."""
    return RandomPushes(cfg, dt) if cfg.speed > 0 else NoPushes()

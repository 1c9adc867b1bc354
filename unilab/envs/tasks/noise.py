"""Reset noise that several tasks share."""

from __future__ import annotations

from numpy.random import Generator

from unilab.envs.mujoco_sim import Sim


def add_uniform_noise(sim: Sim, i: int, rng: Generator, scale: float) -> None:
    """Uniform noise in [-scale, scale] on all positions, then on all velocities, in Gymnasium's order of draws."""
    sim.qpos[i] += rng.uniform(-scale, scale, sim.model.nq)
    sim.qvel[i] += rng.uniform(-scale, scale, sim.model.nv)


def add_normal_noise(sim: Sim, i: int, rng: Generator, scale: float) -> None:
    """The same with normal noise, of deviation ``scale``, on the velocities."""
    sim.qpos[i] += rng.uniform(-scale, scale, sim.model.nq)
    sim.qvel[i] += scale * rng.standard_normal(sim.model.nv)

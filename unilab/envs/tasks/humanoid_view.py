"""The observation that both humanoid tasks share, and its recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Rows
from unilab.envs.tasks.recipe import Part

if TYPE_CHECKING:
    from unilab.envs.tasks.humanoid import Humanoid
    from unilab.envs.tasks.humanoid_standup import HumanoidStandup


def humanoid_observation(task: Humanoid | HumanoidStandup, sim: Sim, rows: Rows) -> Array:
    """Positions without x and y, velocities, inertias, body velocities, actuator and contact forces; world left out."""
    start = 2 if task.exclude_current_positions_from_observation else 0
    parts = [sim.qpos[rows, start:], sim.qvel[rows]]
    for name in _derived(task):
        values = sim.data[name][rows, 6 if name == "qfrc_actuator" else 1 :]  # the root has no actuator
        parts.append(values.reshape(len(values), -1))
    return np.concatenate(parts, axis=1)


def humanoid_recipe(task: Humanoid | HumanoidStandup) -> list[Part]:
    """The same as ``Task.recipe``; ten numbers describe an inertia, six a velocity, a force or the root's joint."""
    start = 2 if task.exclude_current_positions_from_observation else 0
    derived = [Part(name, 10 if name == "cinert" else 6) for name in _derived(task)]
    return [Part("qpos", start), Part("qvel"), *derived]


def _derived(task: Humanoid | HumanoidStandup) -> list[str]:
    wanted = {
        "cinert": task.include_cinert_in_observation,
        "cvel": task.include_cvel_in_observation,
        "qfrc_actuator": task.include_qfrc_actuator_in_observation,
        "cfrc_ext": task.include_cfrc_ext_in_observation,
    }
    return [name for name in wanted if wanted[name]]

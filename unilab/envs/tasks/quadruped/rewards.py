"""Reward terms of ``QuadrupedVelocity``, each logged by its name."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from unilab.envs.tasks.base import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The reward of a step is the sum of weight x term; costs have negative weights, 0 turns a term off."""

    velocity: float = 2.0
    """exp(-error^2 / 0.25) of the planar velocity, m/s."""
    yaw: float = 1.0
    """exp(-error^2 / 0.25) of the yaw rate, rad/s."""
    alive: float = 0.25
    """1 in every step that is no fall."""
    vertical: float = -0.5
    """Square of the vertical velocity, m/s."""
    roll_pitch: float = -0.02
    """Square of the rates of roll and pitch, rad/s."""
    tilt: float = -1.0
    """Square of the horizontal part of projected gravity."""
    torque: float = -5e-5
    """Sum of squared torques, N m."""
    action_rate: float = -0.015
    """Sum of squared changes of the action."""
    energy: float = -3e-4
    """Sum of |torque x joint velocity|, W."""
    air_time: float = 1.0
    """Sum over feet that touch down of (time in the air, at most 0.4 s) - 0.15 s; 0 while the command is to stand."""
    dangling: float = -2.0
    """Sum over feet of the time in the air beyond 0.3 s, at most 1 s: no leg is spared."""
    slip: float = -0.1
    """Sum over feet on the ground of their squared horizontal velocity, m/s."""
    limits: float = -1.0
    """Sum of what joints are beyond 95 % of their ranges, rad."""
    pose: float = -0.05
    """Sum of squared deviations from the nominal pose, rad."""
    stand: float = -0.1
    """Sum of |deviation from the nominal pose| while the command is to stand, rad."""
    fall: float = -5.0
    """1 in the step of a fall."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not math.isfinite(getattr(self, field.name)):
                raise ValueError(f"rewards.{field.name}={getattr(self, field.name)} must be finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """What the terms are computed from; one row per env."""

    command: Array  # [n, 3]
    velocity: Array  # [n, 3] m/s, in the trunk's axes
    rates: Array  # [n, 3] rad/s, in the trunk's axes
    gravity: Array  # [n, 3] unit vector down, in the trunk's axes
    torque: Array  # [n, 12]
    joint_velocity: Array  # [n, 12]
    deviation: Array  # [n, 12] rad from nominal
    beyond: Array  # [n, 12] rad beyond the soft limits, >= 0
    action_change: Array  # [n, 12]
    landed_after: Array  # [n, 4] s in the air of feet that touch down in this step, else NaN
    in_the_air: Array  # [n, 4] s since the foot left the ground, 0 while it is there
    slipping: Array  # [n, 4] m/s, horizontal speed of feet on the ground, else 0
    fallen: Array  # [n] 0 or 1


TRACKING_WIDTH = 0.25
TARGET_AIR_S, LONGEST_AIR_S = 0.15, 0.4
DANGLING_FROM_S, DANGLING_MOST_S = 0.3, 1.0


def terms(m: Motion) -> dict[str, Array]:
    """[n] each, unweighted, by the names of ``Weights``."""
    moving = (np.abs(m.command) > 0).any(axis=1)
    error = _squares(m.command[:, :2] - m.velocity[:, :2])
    air = np.minimum(m.landed_after, LONGEST_AIR_S) - TARGET_AIR_S
    return {
        "velocity": np.exp(-error / TRACKING_WIDTH),
        "yaw": np.exp(-np.square(m.command[:, 2] - m.rates[:, 2]) / TRACKING_WIDTH),
        "alive": 1 - m.fallen,
        "vertical": np.square(m.velocity[:, 2]),
        "roll_pitch": _squares(m.rates[:, :2]),
        "tilt": _squares(m.gravity[:, :2]),
        "torque": _squares(m.torque),
        "action_rate": _squares(m.action_change),
        "energy": np.abs(m.torque * m.joint_velocity).sum(axis=1),
        "air_time": np.where(np.isnan(air), 0, air).sum(axis=1) * moving,
        "dangling": np.clip(m.in_the_air - DANGLING_FROM_S, 0, DANGLING_MOST_S).sum(axis=1),
        "slip": _squares(m.slipping),
        "limits": m.beyond.sum(axis=1),
        "pose": _squares(m.deviation),
        "stand": np.abs(m.deviation).sum(axis=1) * ~moving,
        "fall": m.fallen,
    }


def weighted(values: dict[str, Array], weights: Weights) -> dict[str, Array]:
    """[n] each: weight x term."""
    return {name: getattr(weights, name) * value for name, value in values.items()}


def _squares(x: Array) -> Array:
    return np.asarray(np.square(x).sum(axis=1))

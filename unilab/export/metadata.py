"""``metadata.json``: all that a program on the robot must know of the policy, in plain words and numbers."""

from __future__ import annotations

import dataclasses
from importlib import metadata as packages
from typing import Any

import mujoco
import numpy as np

from unilab.export.onnx_file import OPSET
from unilab.export.robot import Robot
from unilab.restore import Restored

FORMAT = 1
_JOINTS = ("free", "ball", "slide", "hinge")


def describe(restored: Restored, robot: Robot | None, rate_hz: float | None, model_file: str | None) -> dict[str, Any]:
    """The content of ``metadata.json``.

    Args:
        restored: the policy and where it comes from.
        robot: None: the env is not MuJoCo's.
        rate_hz: env steps per second of the robot's time; None: the env does not say.
        model_file: name in the bundle; None: run_policy.py does not simulate.
    """
    cfg, env = restored.cfg, restored.spec.env
    parts = robot.parts if robot else None
    return {
        "format": FORMAT,
        "env": {"id": env.env_id, "kwargs": cfg.env.env_kwargs},
        "algo": cfg.algo,
        "env_steps": restored.env_steps,
        "seed": cfg.seed,
        "versions": {name: packages.version(name) for name in ("torch", "mujoco")},
        "opset": OPSET,
        "observation": {
            "name": "obs",
            "dim": env.obs_dim,
            "dtype": "float32",
            "normalised_inside": cfg.learner.norm_obs,
            "keys": list(env.obs_keys),
            "parts": None if parts is None else [dataclasses.asdict(part) for part in parts],
        },
        "privileged": _privileged(restored),
        "action": {
            "name": "action",
            "dim": env.action_dim,
            "dtype": "float32",
            "low": list(env.action_low),
            "high": list(env.action_high),
        },
        "control": {"rate_hz": rate_hz, "frame_skip": robot.frame_skip if robot else None},
        "joints": _joints(robot.model) if robot else None,
        "actuators": _actuators(robot.model) if robot else None,
        "nominal_pose": _pose(robot) if robot else None,
        "robot": dict(robot.deployment.facts) if robot and robot.deployment else None,
        "model": {"file": model_file, "timestep_s": robot.model.opt.timestep} if robot and model_file else None,
    }


def _privileged(restored: Restored) -> dict[str, Any] | None:
    """The second input of a policy that encodes what only critics see; None: there is none."""
    cfg, env = restored.cfg.learner, restored.spec.env
    if not cfg.privileged_encoder:
        return None
    return {
        "name": "privileged",
        "dim": env.privileged_dim,
        "dtype": "float32",
        "normalised_inside": cfg.norm_obs,
        "keys": list(env.critic_keys),
        "latent": cfg.privileged_encoder[-1],
    }


def _joints(model: mujoco.MjModel) -> list[dict[str, Any]]:
    """In MuJoCo's order; where each begins in qpos and qvel, and its range where it has one."""
    return [
        {
            "name": model.joint(i).name,
            "type": _JOINTS[int(model.jnt_type[i])],
            "qpos": int(model.jnt_qposadr[i]),
            "qvel": int(model.jnt_dofadr[i]),
            "range": model.jnt_range[i].tolist() if model.jnt_limited[i] else None,
        }
        for i in range(model.njnt)
    ]


def _actuators(model: mujoco.MjModel) -> list[dict[str, Any]]:
    """In the order of the controls."""
    joint = int(mujoco.mjtTrn.mjTRN_JOINT)
    return [
        {
            "name": model.actuator(i).name,
            "joint": model.joint(model.actuator_trnid[i, 0]).name if model.actuator_trntype[i] == joint else None,
        }
        for i in range(model.nu)
    ]


def _pose(robot: Robot) -> dict[str, Any]:
    """The task's, or the model's own: its first keyframe, or where it has none the state that its file describes."""
    if robot.deployment:
        return {"qpos": robot.deployment.qpos.tolist(), "keyframe": None}
    model = robot.model
    qpos = model.key_qpos[0] if model.nkey else model.qpos0
    return {"qpos": np.asarray(qpos).tolist(), "keyframe": model.key(0).name if model.nkey else None}

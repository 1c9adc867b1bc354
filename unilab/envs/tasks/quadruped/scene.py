"""Robot, ground and the sensors that a task needs, as one model; and where in its arrays things are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from unilab.envs.tasks.quadruped.ground import GROUND, FlatGround, Hills
from unilab.envs.tasks.quadruped.robot import JOINTS, Robot, Servo
from unilab.errors import EnvError, nearest

Array = NDArray[np.float64]
Index = NDArray[np.int64]

TIMESTEP_S = 0.004
_FOUND, _FORCE_SUM = 1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 3  # of a contact sensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """A compiled model and the indices of its parts; joints in the robot file's order."""

    model: mujoco.MjModel
    ground: FlatGround | Hills
    trunk: int  # body
    qpos: Index  # [12] of the joints
    qvel: Index  # [12]
    ctrl: Index  # [12] of their servos
    feet: Index  # [4] geoms
    gyro: slice  # of sensordata
    up: slice
    contacts: Index  # [4] of sensordata: how many contacts with the ground
    foot_velocities: Index  # [4, 3] of sensordata, world axes
    nominal: Array  # [12] rad
    reach: Array  # [12] rad
    low: Array  # [12] rad: the joints' limits
    high: Array
    soft_low: Array  # [12] rad: 5 % of the range away from the limits
    soft_high: Array
    height: float  # m, of the trunk in the nominal pose

    def place(self, x: float, y: float, yaw: float) -> Array:
        """[7] of the free joint at x, y (m) and yaw (rad), high enough that no foot is in the ground.

        That is the nominal height and 1 cm over the highest ground in a square of 0.6 m.
        """
        around = np.linspace(-0.3, 0.3, 7)
        ground = self.ground.height(*(axis + at for axis, at in zip(np.meshgrid(around, around), (x, y), strict=True)))
        return np.array([x, y, ground.max() + self.height + 0.01, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)])

    def start(self) -> Array:
        """[nq] in the nominal pose at the origin, heading along x."""
        qpos = np.array(self.model.qpos0)
        qpos[:7] = self.place(0, 0, 0)
        qpos[self.qpos] = self.nominal
        return qpos

    def facts(self) -> dict[str, Any]:
        """Where in ``MjData`` things are, and what an action means, as lists; for a policy without this package."""
        sensors = np.arange(self.model.nsensordata)
        found = {"gyro": sensors[self.gyro], "up": sensors[self.up]}
        found |= {name: getattr(self, name) for name in ("qpos", "qvel", "ctrl", "nominal", "reach", "low", "high")}
        return {name: value.tolist() for name, value in found.items()}


def build_scene(robot: Robot, model_file: Path, ground: FlatGround | Hills) -> Scene:
    """Compile the model.

    Raises:
        EnvError: the model cannot be read, or lacks what the robot's file names.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(model_file))
        _check(robot, model_file, spec)
        if robot.servo is not None:
            _put_servos(spec, robot.joints, robot.servo)
        spec.option.timestep = TIMESTEP_S
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.iterations, spec.option.ls_iterations = 10, 20
        ground.add_to(spec)
        _add_foot_sensors(spec, robot.feet)
        model = spec.compile()
    except ValueError as error:
        raise EnvError(f"{model_file} cannot be used: {' '.join(str(error).split())}") from error
    return _indexed(robot, model_file, model, ground)


def _check(robot: Robot, path: Path, spec: mujoco.MjSpec) -> None:
    free = [joint.parent.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if free != [robot.trunk]:
        raise EnvError(f"{path}: the body {robot.trunk!r} must have the only free joint; bodies that have one: {free}")
    for geom in spec.geoms:
        if geom.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD):
            raise EnvError(
                f"{path}: geom {geom.name!r} is a ground, which the task adds; use a model of the robot alone"
            )
    wanted = {
        "joint": (robot.joints, [joint.name for joint in spec.joints]),
        "geom": (robot.feet, [geom.name for geom in spec.geoms]),
        "sensor": ((robot.sensors.gyro, robot.sensors.up), [sensor.name for sensor in spec.sensors]),
    }
    for kind, (names, known) in wanted.items():
        for name in names:
            if name not in known:
                raise EnvError(f"{path} has no {kind} {name!r}{nearest(name, known)}")


def _put_servos(spec: mujoco.MjSpec, joints: tuple[str, ...], servo: Servo) -> None:
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for i, name in enumerate(joints):
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=servo.kp[i], kv=servo.kv[i])
        actuator.forcerange = [-servo.torque[i], servo.torque[i]]
        actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        if servo.armature is not None:
            spec.joint(name).armature = servo.armature[i]


def _add_foot_sensors(spec: mujoco.MjSpec, feet: tuple[str, ...]) -> None:
    geom = mujoco.mjtObj.mjOBJ_GEOM
    for foot in feet:
        spec.geom(foot).priority = 1  # so that its own friction counts, which may differ between envs
        kind = mujoco.mjtSensor.mjSENS_CONTACT
        found = spec.add_sensor(type=kind, objtype=geom, objname=foot, reftype=geom, refname=GROUND)
        found.name, found.intprm = f"unilab_contact_{foot}", [_FOUND, 0, 1]
        kind = mujoco.mjtSensor.mjSENS_FRAMELINVEL
        spec.add_sensor(type=kind, objtype=geom, objname=foot, name=f"unilab_velocity_{foot}")


def _indexed(robot: Robot, path: Path, model: mujoco.MjModel, ground: FlatGround | Hills) -> Scene:
    joints = np.array([model.joint(name).id for name in robot.joints])
    hinges = model.jnt_type[joints] == mujoco.mjtJoint.mjJNT_HINGE
    if not hinges.all():
        raise EnvError(f"{path}: joint {robot.joints[int(np.argmin(hinges))]!r} is no hinge")
    limited = model.jnt_range[joints]
    if not (limited[:, 0] < limited[:, 1]).all():
        raise EnvError(f"{path}: every joint needs a range")
    nominal = np.array(robot.nominal)
    outside = (nominal < limited[:, 0]) | (nominal > limited[:, 1])
    if outside.any():
        i = int(np.argmax(outside))
        raise EnvError(
            f"{path}: the nominal angle {nominal[i]} of {robot.joints[i]!r} is outside its range {limited[i].tolist()}"
        )
    margin = 0.05 * (limited[:, 1] - limited[:, 0])
    contacts = [_sensor(model, path, f"unilab_contact_{foot}", 1).start for foot in robot.feet]
    velocities = [_sensor(model, path, f"unilab_velocity_{foot}", 3).start for foot in robot.feet]
    return Scene(
        model=model,
        ground=ground,
        trunk=model.body(robot.trunk).id,
        qpos=model.jnt_qposadr[joints].astype(np.int64),
        qvel=model.jnt_dofadr[joints].astype(np.int64),
        ctrl=_servos(robot, path, model, joints),
        feet=np.array([model.geom(name).id for name in robot.feet]),
        gyro=_sensor(model, path, robot.sensors.gyro, 3),
        up=_sensor(model, path, robot.sensors.up, 3),
        contacts=np.array(contacts),
        foot_velocities=np.array(velocities)[:, None] + np.arange(3),
        nominal=nominal,
        reach=np.array(robot.reach),
        low=limited[:, 0],
        high=limited[:, 1],
        soft_low=limited[:, 0] + margin,
        soft_high=limited[:, 1] - margin,
        height=robot.height,
    )


def _servos(robot: Robot, path: Path, model: mujoco.MjModel, joints: Index) -> Index:
    """[12] the position servo of each joint."""
    advice = f"; give the robot a servo section in its YAML file, with kp and torque for {JOINTS} joints"
    if model.nu != JOINTS:
        raise EnvError(f"{path} has {model.nu} actuators, not one a joint{advice}")
    found = []
    for name, joint in zip(robot.joints, joints, strict=True):
        mine = np.flatnonzero(
            (model.actuator_trnid[:, 0] == joint) & (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT)
        )
        position = mine.size == 1 and model.actuator_gainprm[mine[0], 0] == -model.actuator_biasprm[mine[0], 1] > 0
        if not position or not model.actuator_forcelimited[mine[0]]:
            raise EnvError(f"{path}: joint {name!r} has no position servo with a torque limit{advice}")
        found.append(mine[0])
    return np.array(found, np.int64)


def _sensor(model: mujoco.MjModel, path: Path, name: str, dim: int) -> slice:
    sensor = model.sensor(name)
    start, size = int(sensor.adr[0]), int(sensor.dim[0])
    if size != dim:
        raise EnvError(f"{path}: sensor {name!r} gives {size} numbers, not {dim}")
    return slice(start, start + size)

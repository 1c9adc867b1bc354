"""The left/right mirror map of a four-legged robot, found in its model: y becomes -y.

A position or velocity (x, y, z) becomes (x, -y, z), a rate of turn (x, y, z) becomes (-x, y, -z). A joint becomes the
one that lies where its image would, and turns the other way where its axis is not the image of that one's.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from unilab.envs.tasks.quadruped.scene import Scene
from unilab.mirror import Mirror, SignedPermutation, in_place, side_by_side

Array = NDArray[np.float64]

_VECTOR, _RATE = (1, -1, 1), (-1, 1, -1)
_CLOSE = 1e-6
_GRID = SignedPermutation((6, 7, 8, 3, 4, 5, 0, 1, 2), (1,) * 9)  # of 3 x 3 points, whose rows are lines of equal y


def make_mirror(scene: Scene, history: int) -> Mirror | None:
    """The map of the task's groups; None where the robot's sides are not alike.

    What is compared: where joints and feet are, axes, ranges, nominal angles, reach, servos, masses, and how the IMU
    is mounted. Hills are not the same in the mirror, but as likely.
    """
    data = mujoco.MjData(scene.model)
    data.qpos[scene.qpos] = scene.nominal
    data.qpos[:7] = 0, 0, scene.height, 1, 0, 0, 0
    mujoco.mj_forward(scene.model, data)
    joints, feet = _joints(scene, data), _pairs(data.geom_xpos[scene.feet])
    if joints is None or feet is None or not _imu_is_straight(scene, data):
        return None
    frame = side_by_side([in_place(*_RATE), in_place(*_VECTOR), joints, joints, joints])
    obs = side_by_side([frame, in_place(1, -1, -1), *[frame] * history])
    legs = SignedPermutation(feet, (1,) * len(feet))
    truth = [in_place(*_VECTOR), legs, legs, _GRID, in_place(1, 1, 1, 1)]
    return Mirror(obs=obs, action=joints, critic=side_by_side([obs, *truth]))


def _joints(scene: Scene, data: mujoco.MjData) -> SignedPermutation | None:
    model = scene.model
    ids = np.array([int(np.flatnonzero(model.jnt_qposadr == address)[0]) for address in scene.qpos])
    index = _pairs(data.xanchor[ids])
    if index is None:
        return None
    axis, partner = data.xaxis[ids], np.array(index)
    image = axis[partner] * _RATE
    sign = np.where(np.abs(axis - image).max(axis=1) < _CLOSE, 1, -1)
    low, high = scene.low[partner], scene.high[partner]
    body, servo = model.jnt_bodyid[ids], scene.ctrl
    own = [model.body_mass[body], model.dof_damping[scene.qvel], model.dof_armature[scene.qvel], scene.reach]
    own += [model.dof_frictionloss[scene.qvel], model.actuator_gainprm[servo, 0], model.actuator_biasprm[servo, 2]]
    own += [model.actuator_forcerange[servo, 1], -model.actuator_forcerange[servo, 0]]
    alike = [(axis, sign[:, None] * image), *[(values, values[partner]) for values in own]]
    alike += [(scene.nominal, sign * scene.nominal[partner])]
    alike += [(scene.low, np.where(sign > 0, low, -high)), (scene.high, np.where(sign > 0, high, -low))]
    if not all(np.allclose(one, other, atol=_CLOSE) for one, other in alike):
        return None
    return SignedPermutation(index, tuple(sign.tolist()))


def _pairs(places: Array) -> tuple[int, ...] | None:
    """Which of these places [k, 3] lies at the image of each; None where one has none."""
    distance = np.abs(places[:, None] - places[None] * _VECTOR).max(axis=2)
    nearest = distance.argmin(axis=1)
    paired = (distance.min(axis=1) < _CLOSE).all() and (nearest[nearest] == np.arange(len(places))).all()
    return tuple(nearest.tolist()) if paired else None


def _imu_is_straight(scene: Scene, data: mujoco.MjData) -> bool:
    """Whether both sensors' axes are their own images."""
    model = scene.model
    for address, frame in ((scene.gyro.start, "sensor_objid"), (scene.up.start, "sensor_refid")):
        sensor = int(np.flatnonzero(model.sensor_adr == address)[0])
        kind = model.sensor_objtype if frame == "sensor_objid" else model.sensor_reftype
        at_site = kind[sensor] == mujoco.mjtObj.mjOBJ_SITE
        place = getattr(model, frame)[sensor]
        axes = (data.site_xmat if at_site else data.xmat)[place].reshape(3, 3)
        if not np.allclose(axes * np.outer(_VECTOR, _VECTOR), axes, atol=_CLOSE):
            return False
    return True

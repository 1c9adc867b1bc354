"""Native tasks, drawn by one renderer from the states of all simulations, one after the other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from fractions import Fraction

import mujoco
import numpy as np

from unilab.envs.base import BatchEnv
from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig
from unilab.envs.tasks.camera import Camera
from unilab.view.cameras import check_camera
from unilab.view.grid import Image
from unilab.view.size import Size

_ROOM = 3.0
"""Distance over radius: the usual 45 degrees from top to bottom take 2.6."""

_SHADOW = 4  # texels of the map of shadows for a pixel of the picture, along one side


class NativePainter:
    """``Painter`` of a ``MujocoBatchEnv``; model fields that differ between simulations are drawn as the model's.

    Args:
        env: to draw.
        tile: size of one picture.
        camera: of the model, by name; None: the task's own view.
    """

    def __init__(self, env: MujocoBatchEnv, tile: Size, camera: str | None) -> None:
        self._sim = env.sim
        model = copy.copy(env.sim.model)  # only how it is drawn differs
        model.vis.global_.offwidth, model.vis.global_.offheight = tile
        # A finer map of shadows than the picture shows takes half of the time without a GPU.
        model.vis.quality.shadowsize = min(model.vis.quality.shadowsize, _SHADOW * max(tile))
        if not model.nlight:  # MuJoCo's lamp on the camera is meant to go with others
            model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.3, 0.5
        self._model = model
        self._data = mujoco.MjData(model)
        if camera is not None:
            check_camera(model, camera, env.spec.env_id)
        self._camera: str | View = View(model, env.task.camera) if camera is None else camera
        self._renderer = mujoco.Renderer(model, tile.height, tile.width)
        # Decimal, not binary: 0.015 s gives 200/3 steps per second, and files say so.
        self.rate = 1 / Fraction(str(round(env.task.dt(env.sim), 9)))

    def tiles(self) -> Iterator[Image]:
        """See ``Painter``."""
        for i in range(self._sim.num_envs):
            self._sim.copy_to(self._data, i)
            mujoco.mj_forward(self._model, self._data)
            view = self._camera if isinstance(self._camera, str) else self._camera.at(self._data)
            self._renderer.update_scene(self._data, view)
            yield self._renderer.render()

    def close(self) -> None:
        """See ``Painter``."""
        self._renderer.close()


class View:
    """A ``Camera`` as MuJoCo's, for a model; what it leaves open follows from the robot in its default state."""

    def __init__(self, model: mujoco.MjModel, camera: Camera) -> None:
        self._camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, self._camera)
        self._camera.azimuth, self._camera.elevation = camera.azimuth, camera.elevation
        self._robot = int(model.body_rootid[model.jnt_bodyid[0]]) if model.njnt else 0
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        centre = data.subtree_com[self._robot]
        self._camera.distance = camera.distance or _ROOM * _radius(model, data, self._robot)
        self._camera.lookat[:] = camera.lookat or (*(centre[:2] * (not camera.follow)), centre[2])
        self._offset = self._camera.lookat[:2].copy() if camera.follow else None

    def at(self, data: mujoco.MjData) -> mujoco.MjvCamera:
        """The camera for the robot where it is."""
        if self._offset is not None:
            self._camera.lookat[:2] = self._offset + data.subtree_com[self._robot, :2]
        return self._camera


def _radius(model: mujoco.MjModel, data: mujoco.MjData, robot: int) -> float:
    """Metres from the robot's centre of mass to its farthest point; floors have no size."""
    geoms = model.body_rootid[model.geom_bodyid] == robot
    reach = np.linalg.norm(data.geom_xpos[geoms] - data.subtree_com[robot], axis=1) + model.geom_rbound[geoms]
    return float(reach.max(initial=0.0)) or float(model.stat.extent)


def needs_gl(cfg: EnvConfig) -> bool:
    """See ``PainterModule``."""
    return True


def with_rendering(cfg: EnvConfig, tile: Size, camera: str | None) -> EnvConfig:
    """See ``PainterModule``; a native env is drawn from outside."""
    return cfg


def make_painter(env: BatchEnv, tile: Size, camera: str | None) -> NativePainter:
    """See ``PainterModule``."""
    assert isinstance(env, MujocoBatchEnv)
    return NativePainter(env, tile, camera)

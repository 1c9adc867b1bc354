"""What the robot walks on: a plane, or hills as a height field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GROUND = "unilab_ground"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The ground of all envs."""

    kind: Literal["flat", "hills"] = "flat"
    amplitude: float = 0.05
    """m, of hills: the ground lies between 0 and twice this."""
    wavelength: float = 1.5
    """m, of the shortest hills."""
    seed: int = 0
    """Of the hills; all envs have the same, and start at places of their own."""

    def __post_init__(self) -> None:
        for name in ("amplitude", "wavelength"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"ground.{name}={getattr(self, name)} must be positive and finite")


class FlatGround:
    """A plane at height 0."""

    start_range = 0.0  # m: envs start this far from the origin at most

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Put the ground into a model."""
        _finish(spec, spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05]))

    def height(self, x: Array, y: Array) -> Array:
        """m, at points of any shape."""
        return np.zeros_like(x)


class Hills:
    """A sum of waves on a square grid; beyond its edge there is nothing to stand on.

    A robot at 1 m/s meets the edge after 25 s at the earliest, which no episode of 20 s lasts.
    """

    start_range = 5.0

    _HALF, _CELL, _WAVES = 30.0, 0.15, 24

    def __init__(self, cfg: Ground) -> None:
        rng = np.random.default_rng(cfg.seed)
        count = round(2 * self._HALF / self._CELL) + 1
        axis = np.linspace(-self._HALF, self._HALF, count)
        length = cfg.wavelength * rng.uniform(1, 4, self._WAVES)
        angle, phase = rng.uniform(0, 2 * math.pi, (2, self._WAVES))
        kx, ky = 2 * math.pi / length * np.cos(angle), 2 * math.pi / length * np.sin(angle)
        # cos(a + b) as two matrix products: rows are y, columns x, as MuJoCo has them.
        a, b = np.outer(axis, ky) + phase, np.outer(axis, kx)
        waves = np.cos(a) @ np.cos(b).T - np.sin(a) @ np.sin(b).T
        self._top = 2 * cfg.amplitude
        unit = (waves - waves.min()) / (waves.max() - waves.min())
        self._unit = unit.astype(np.float32)  # as MuJoCo keeps it
        self.grid: Array = self._unit.astype(np.float64) * self._top

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """See ``FlatGround``."""
        rows, columns = self._unit.shape
        size = [self._HALF, self._HALF, self._top, 0.1]
        spec.add_hfield(name=GROUND, size=size, nrow=rows, ncol=columns, userdata=self._unit.ravel())
        _finish(spec, spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=GROUND))

    def height(self, x: Array, y: Array) -> Array:
        """See ``FlatGround``; bilinear between grid points."""
        last = len(self.grid) - 1
        # A simulation that has blown up may be at NaN, which is seen elsewhere; here it must only not be an index.
        u, v = ((np.clip(np.nan_to_num(p), -self._HALF, self._HALF) + self._HALF) / self._CELL for p in (x, y))
        i, j = (np.minimum(p.astype(np.int64), last - 1) for p in (u, v))
        u, v, grid = u - i, v - j, self.grid
        low = (1 - u) * grid[j, i] + u * grid[j, i + 1]
        high = (1 - u) * grid[j + 1, i] + u * grid[j + 1, i + 1]
        return np.asarray((1 - v) * low + v * high)


def make_ground(cfg: Ground) -> FlatGround | Hills:
    """The ground that a config asks for."""
    return FlatGround() if cfg.kind == "flat" else Hills(cfg)


def _finish(spec: mujoco.MjSpec, geom: mujoco.MjsGeom) -> None:
    # Everything that the model's default class may have changed.
    geom.name = GROUND
    geom.contype = geom.conaffinity = 1
    geom.condim, geom.priority = 3, 0
    geom.friction = [1.0, 0.005, 0.0001]
    geom.solref, geom.solimp = [0.02, 1], [0.9, 0.95, 0.001, 0.5, 2]
    geom.margin = geom.gap = 0
    geom.group = 0
    # For pictures: squares of 0.5 m, on which motion shows, and daylight.
    look = {"type": mujoco.mjtTexture.mjTEXTURE_2D, "builtin": mujoco.mjtBuiltin.mjBUILTIN_CHECKER}
    spec.add_texture(name=GROUND, width=256, height=256, rgb1=[0.5, 0.55, 0.5], rgb2=[0.6, 0.65, 0.6], **look)
    material = spec.add_material(name=GROUND, texrepeat=[1, 1], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = GROUND
    geom.material, geom.rgba = GROUND, [1, 1, 1, 1]
    sky = {"type": mujoco.mjtTexture.mjTEXTURE_SKYBOX, "builtin": mujoco.mjtBuiltin.mjBUILTIN_GRADIENT}
    spec.add_texture(name=f"{GROUND}_sky", width=64, height=384, rgb1=[0.55, 0.7, 0.9], rgb2=[0.85, 0.9, 0.95], **sky)
    sun = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    spec.worldbody.add_light(pos=[0, 0, 5], dir=[0.4, 0.3, -1], type=sun, diffuse=[0.7, 0.7, 0.7], castshadow=False)

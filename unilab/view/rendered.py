"""Gymnasium envs, which draw themselves: ``render_mode="rgb_array"``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from unilab.envs.base import BatchEnv
from unilab.envs.gymnasium_make import make_one
from unilab.envs.gymnasium_sync import SyncEnv
from unilab.envs.module_id import import_module_of, one_line
from unilab.envs.registry import EnvConfig
from unilab.errors import ConfigError, EnvError
from unilab.view.cameras import check_camera
from unilab.view.grid import Image
from unilab.view.size import Size
from unilab.view.still import fit

_USUAL_RATE = 30  # of an env that does not say


class RenderedPainter:
    """``Painter`` of envs made with ``with_rendering``; their pictures are fitted into the tiles."""

    def __init__(self, env: SyncEnv, tile: Size) -> None:
        self._env = env
        self._tile = tile
        fps = env.envs[0].metadata.get("render_fps") or _USUAL_RATE
        self.rate = Fraction(str(fps))

    def tiles(self) -> Iterator[Image]:
        """See ``Painter``."""
        for env in self._env.envs:
            yield fit(_picture(self._env.spec.env_id, env), self._tile)

    def close(self) -> None:
        """See ``Painter``."""


def needs_gl(cfg: EnvConfig) -> bool:
    """See ``PainterModule``; an env with a renderer of its own speaks for itself."""
    return _mujoco_class(cfg.env) is not None


def with_rendering(cfg: EnvConfig, tile: Size, camera: str | None) -> EnvConfig:
    """See ``PainterModule``.

    Raises:
        ConfigError: there is no choice of camera.
        EnvError: the env cannot be made, or not so that it draws itself.
    """
    kwargs: dict[str, Any] = {"render_mode": "rgb_array"}
    if _takes_size(cfg.env):
        kwargs |= {"width": tile.width, "height": tile.height}
    if camera is not None:
        if "width" not in kwargs:
            raise ConfigError(f"--camera {camera} would have no effect: {cfg.env} has one view only")
        kwargs["camera_name"] = camera
    drawn = replace(cfg, env_kwargs=kwargs | cfg.env_kwargs)
    try:
        make_one(drawn).close()
    except EnvError as error:
        make_one(cfg).close()  # raises where rendering is not what fails
        reason = one_line(error.__cause__ or error)
        raise EnvError(
            f"{cfg.env} cannot be rendered: it is not made with render_mode='rgb_array' ({reason})"
        ) from error
    return drawn


def make_painter(env: BatchEnv, tile: Size, camera: str | None) -> RenderedPainter:
    """See ``PainterModule``."""
    assert isinstance(env, SyncEnv)
    if camera is not None:
        check_camera(env.envs[0].get_wrapper_attr("model"), camera, env.spec.env_id)
    return RenderedPainter(env, tile)


def _takes_size(env_id: str) -> bool:
    """Whether the env draws in any size and from any camera of its model."""
    creator = _mujoco_class(env_id)
    return creator is not None and any(p.kind is p.VAR_KEYWORD for p in inspect.signature(creator).parameters.values())


def _mujoco_class(env_id: str) -> type | None:
    """The env's class if it is made like Gymnasium's MuJoCo envs."""
    found = gym.registry.get(import_module_of(env_id))
    if found is None or found.entry_point is None:
        return None
    try:
        creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    except Exception:
        return None  # making it fails in the same way, and says why
    module = sys.modules.get("gymnasium.envs.mujoco.mujoco_env")
    if module is None or not isinstance(creator, type) or not issubclass(creator, module.MujocoEnv):
        return None
    return creator


def _picture(env_id: str, env: gym.Env[Any, Any]) -> Image:
    try:
        picture = env.render()
    except Exception as error:
        raise EnvError(f"{env_id} cannot be rendered: {one_line(error)}") from error
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        got = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise EnvError(f"{env_id} cannot be rendered: render() gave {got} instead of uint8 [height, width, 3]")
    return picture

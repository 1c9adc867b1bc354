"""Pictures of the robots of a ``BatchEnv``: what a painter is, and which one an env gets."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from unilab.envs.base import BatchEnv
from unilab.envs.choice import choose
from unilab.envs.registry import EnvConfig
from unilab.errors import EnvError
from unilab.view.grid import Image
from unilab.view.size import Size

_PAINTERS = {"mujoco": "unilab.view.native", "gymnasium": "unilab.view.rendered"}
"""Backend -> module with ``with_rendering`` and ``make_painter``."""


class Painter(Protocol):
    """Draws the envs as they are now."""

    rate: Fraction
    """Env steps per second of the robot's time."""

    def tiles(self) -> Iterator[Image]:
        """One picture per env, in order.

        Raises:
            EnvError: an env gave no picture.
        """

    def close(self) -> None:
        """Release what drawing needs; the env is the caller's."""


class PainterModule(Protocol):
    """What a module of ``_PAINTERS`` offers."""

    def needs_gl(self, cfg: EnvConfig) -> bool:
        """Whether MuJoCo draws these envs."""

    def with_rendering(self, cfg: EnvConfig, tile: Size, camera: str | None) -> EnvConfig:
        """The config of an env that can be drawn."""

    def make_painter(self, env: BatchEnv, tile: Size, camera: str | None) -> Painter:
        """A painter of an env that was made with such a config."""


def painter_module(cfg: EnvConfig, no_gl: str | None) -> tuple[PainterModule, EnvConfig]:
    """The painters for the backend of a config, and the config with that backend, all envs in this process.

    Args:
        cfg: of the envs.
        no_gl: why there is no OpenGL; None: there is one.

    Raises:
        EnvError: its envs cannot be drawn, or there is no such env.
    """
    here = replace(cfg, vec="sync")
    backend = choose(here).name
    if backend not in _PAINTERS:
        raise EnvError(f"{cfg.env} cannot be rendered: {backend} envs have no pictures")
    module: PainterModule = importlib.import_module(_PAINTERS[backend])
    drawn = replace(here, backend=backend)  # type: ignore[arg-type]
    if no_gl is not None and module.needs_gl(drawn):
        raise EnvError(no_gl)
    return module, drawn

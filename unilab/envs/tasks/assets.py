"""Where model files are."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from unilab.errors import EnvError


def model_path(xml_file: str) -> str:
    """Full path of a model file.

    Args:
        xml_file: as for Gymnasium's MuJoCo envs: a path if it starts with ``.``, ``/`` or ``~``, else the name of one
            of Gymnasium's own models.

    Raises:
        EnvError: there is no such file.
    """
    path = Path(os.path.expanduser(xml_file)) if xml_file.startswith((".", "/", "~")) else _gymnasium() / xml_file
    if not path.is_file():
        raise EnvError(f"xml_file={xml_file!r}: there is no file {path}")
    return str(path)


def _gymnasium() -> Path:
    # Found, not imported: gymnasium.envs.mujoco loads every env and the renderer with it.
    spec = importlib.util.find_spec("gymnasium")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "envs" / "mujoco" / "assets"

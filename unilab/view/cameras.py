"""The cameras of a MuJoCo model."""

from __future__ import annotations

from typing import Any

from unilab.errors import ConfigError, nearest


def check_camera(model: Any, name: str, env_id: str) -> None:
    """Refuse a camera that the ``MjModel`` does not have.

    Raises:
        ConfigError: names those that it has.
    """
    known = [known for i in range(model.ncam) if (known := model.camera(i).name)]
    if name not in known:
        names = f"it has {', '.join(known)}" if known else "it has none with a name"
        raise ConfigError(f"--camera {name}: {env_id} has no such camera{nearest(name, known) or f'; {names}'}")

"""Which OpenGL MuJoCo renders with: its choice is made when it is imported, and on Linux it is a window by default.

A library that is there may still not work (no driver, no device), and one that was tried cannot be replaced by another
in the same process. So each is tried in a process of its own, with one small picture.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, MutableMapping
from ctypes.util import find_library

_TRY = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco/>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(data)
    renderer.render()
"""
_DEADLINE_S = 60.0
_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
_ADVICE = (
    "on Debian and Ubuntu `apt-get install libegl1 libgl1 libgl1-mesa-dri` brings one that needs no GPU, libosmesa6 too"
)


def choose_gl(
    environ: MutableMapping[str, str] = os.environ, trouble_with: Callable[[str], str | None] | None = None
) -> str | None:
    """Set MUJOCO_GL to what renders here without a display; call it before anything imports MuJoCo.

    A value that the user has set stays if it works. Elsewhere than on Linux MuJoCo's own choice needs no display.

    Args:
        environ: the environment variables.
        trouble_with: tries one backend; see ``gl_trouble``.

    Returns:
        None, or one sentence about why nothing that needs MuJoCo can be rendered.
    """
    if sys.platform != "linux":
        return None
    given = environ.get("MUJOCO_GL", "").strip()
    reasons = []
    for name in [given] if given else ["egl", "osmesa"]:
        reason = (trouble_with or gl_trouble)(name)
        if reason is None:
            environ["MUJOCO_GL"] = name
            return None
        reasons.append(f"{name}: {reason}")
    environ.pop("MUJOCO_GL", None)  # or MuJoCo would not even be imported, for what needs no picture of it
    return f"no OpenGL renders here without a display ({'; '.join(reasons)}): {_ADVICE}"


def gl_trouble(name: str) -> str | None:
    """Render with ``MUJOCO_GL=name`` in a process of its own; None, or what went wrong, in a few words."""
    environ = os.environ | {"MUJOCO_GL": name}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRY], env=environ, capture_output=True, text=True, timeout=_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {_DEADLINE_S:g} s"
    if done.returncode == 0:
        return None
    if find_library(_LIBRARIES.get(name, "c")) is None:
        return f"there is no lib{_LIBRARIES[name]}"
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"

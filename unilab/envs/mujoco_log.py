"""Where MuJoCo's own words go.

Left alone, MuJoCo prints every warning and adds it to MUJOCO_LOG.TXT in the current folder, which is the user's. A
simulation that blows up does so once per blow-up.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_NAME = "MUJOCO_LOG.TXT"
_LONGEST_PATH = 1023  # bytes that mjLogConfig has room for


def log_to(folder: Path | None) -> None:
    """Send all later messages of this process to ``folder``/MUJOCO_LOG.TXT, or nowhere; never to the console.

    Does nothing in a process that has not imported MuJoCo: an env of another kind is spared the import.
    """
    if "mujoco" not in sys.modules:
        return
    import mujoco

    path = "" if folder is None else str(folder.resolve() / LOG_NAME)
    fits = 0 < len(path.encode()) <= _LONGEST_PATH
    config = mujoco.MjLogConfig.get()
    config.logto_console = False
    config.logto_file = fits
    if fits:
        config.logfile = path
    config.set()


@contextmanager
def model_warnings() -> Iterator[None]:
    """Route what MuJoCo says about a model to Python warnings, each shown once.

    What it deprecates in a model file of a library is nothing that the user of that library can act on, and is left
    out.
    """
    import mujoco

    def show(message: str) -> None:
        if "deprecated" not in message:
            warnings.warn(f"MuJoCo: {message}", stacklevel=2)

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(show)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)

"""Native tasks: one small file each, over batched MuJoCo.

A task of your own is a dataclass over ``Task`` and one call of ``register`` in a module of yours; then
``--env your_module:YourTask-v0`` trains on it (docs/envs.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unilab.envs.tasks.base import Task

TASKS: dict[str, str | type[Task]] = {
    "Ant-v5": "ant:Ant",
    "HalfCheetah-v5": "half_cheetah:HalfCheetah",
    "Hopper-v5": "hopper:Hopper",
    "Humanoid-v5": "humanoid:Humanoid",
    "HumanoidStandup-v5": "humanoid_standup:HumanoidStandup",
    "InvertedDoublePendulum-v5": "inverted_double_pendulum:InvertedDoublePendulum",
    "InvertedPendulum-v5": "inverted_pendulum:InvertedPendulum",
    "Pusher-v5": "pusher:Pusher",
    "Reacher-v5": "reacher:Reacher",
    "Swimmer-v5": "swimmer:Swimmer",
    "Walker2d-v5": "walker2d:Walker2d",
    "unilab/QuadrupedVelocity-v0": "quadruped.task:QuadrupedVelocity",
}
"""Env id -> class, or file and name of a class in this package, imported when it is asked for."""


def register(env_id: str, task: type[Task]) -> None:
    """Let ``--env module:env_id`` find a task; call it where the module is imported."""
    TASKS[env_id] = task


def task_class(env_id: str) -> type[Task]:
    """The class behind a known id."""
    entry = TASKS[env_id]
    if not isinstance(entry, str):
        return entry
    file, name = entry.split(":")
    found: type[Task] = getattr(importlib.import_module(f"{__name__}.{file}"), name)
    return found

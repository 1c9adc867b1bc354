"""Which backend steps the envs of a config, and why; the same answer in every process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unilab.envs.module_id import import_module_of
from unilab.envs.tasks import TASKS
from unilab.errors import EnvError, nearest

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig

TOYS = {"unilab/Toy-v0": "unilab.envs.toy"}
"""Env id -> module of those that need no simulator."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend and the reason for it."""

    name: str
    module: str
    why: str


def choose(cfg: EnvConfig) -> Choice:
    """The backend of a config.

    Raises:
        EnvError: the backend asked for does not have this env, or not with these options.
    """
    if cfg.env in TOYS:
        if cfg.backend != "auto":
            raise EnvError(f"{cfg.env} is built in; backend={cfg.backend} has no effect on it")
        return Choice("toy", TOYS[cfg.env], "built in")
    if cfg.backend == "gymnasium":
        return _gymnasium("as asked")
    if cfg.backend == "envpool":
        return Choice("envpool", "unilab.envs.envpool_vec", "as asked")
    return _native_or_else(cfg)


def _native_or_else(cfg: EnvConfig) -> Choice:
    name = import_module_of(cfg.env)  # which may register a native task
    if name not in TASKS:
        if cfg.backend == "mujoco":
            raise EnvError(f"backend=mujoco has no task {name!r}{_hint(name)}")
        return _gymnasium("no native task has this id")
    if cfg.backend == "auto" and ":" in cfg.env and _gymnasium_has(name):
        return _gymnasium("the id is what its module registered")
    from unilab.envs import mujoco_backend  # imports MuJoCo, which other envs are spared

    objection = mujoco_backend.objection(cfg)
    if objection is None:
        return Choice("mujoco", mujoco_backend.__name__, "native task" if cfg.backend == "auto" else "as asked")
    if cfg.backend == "mujoco" or not _gymnasium_has(name):
        raise EnvError(f"{cfg.env}: {objection}")
    return _gymnasium(objection)


def _gymnasium(why: str) -> Choice:
    return Choice("gymnasium", "unilab.envs.gymnasium_vec", why)


def _gymnasium_has(name: str) -> bool:
    """Whether the task is one of Gymnasium's: ours have a namespace or a class of the user's."""
    return "/" not in name and isinstance(TASKS[name], str)


def _hint(name: str) -> str:
    return nearest(name, TASKS) or f"; it has {', '.join(TASKS)}, and backend=auto takes any Gymnasium id"

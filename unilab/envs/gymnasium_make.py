"""One gymnasium env by id, and one sentence where that fails."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, parse_env_id

from unilab.envs.module_id import creator_in_module, import_module_of, one_line
from unilab.envs.mujoco_log import model_warnings
from unilab.envs.tasks import TASKS
from unilab.errors import EnvError, nearest

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig


def make_one(cfg: EnvConfig) -> gym.Env[Any, Any]:
    """Build one env of ``cfg.env``; gymnasium's own checker is off, ``probe`` checks what matters here.

    Raises:
        EnvError: unknown id, failing import, or whatever the constructor raised, in one sentence.
    """
    import_module_of(cfg.env)
    try:
        with _mujoco_warnings(cfg.env):
            return gym.make(_spec_or_id(cfg.env), **{"disable_env_checker": True, **cfg.env_kwargs})
    except Exception as error:
        raise EnvError(_reason(cfg, error)) from error


def _spec_or_id(env_id: str) -> EnvSpec | str:
    """What gymnasium makes: a registered id as it is, a class or function of a module as if it were registered."""
    name = env_id.rpartition(":")[2]
    creator = None if name in gym.registry else creator_in_module(env_id)
    return env_id if creator is None else EnvSpec(name, entry_point=creator)


def _mujoco_warnings(env_id: str) -> AbstractContextManager[None]:
    """Show what MuJoCo says about a model as Python warnings, where the env is one of MuJoCo's."""
    registered = gym.registry.get(env_id.rpartition(":")[2])
    if "mujoco" not in sys.modules and "mujoco" not in str(registered and registered.entry_point):
        return nullcontext()  # an env of another kind: spare it the import
    return model_warnings()


def _reason(cfg: EnvConfig, error: Exception) -> str:
    name = cfg.env.rpartition(":")[2]
    newest = _newest_version(name)
    if name not in gym.registry and newest is None and isinstance(_spec_or_id(cfg.env), str):
        known = [*_newest_ids(), *TASKS]
        hint = nearest(name, known) or "; is it registered by a module, or a class in one? then use module:Id"
        return f"unknown env id {cfg.env!r}{hint}"
    if newest is not None and newest != name:
        return f"{cfg.env!r} is not available in gymnasium {gym.__version__}; use {newest!r} ({one_line(error)})"
    given = f" with env_kwargs {cfg.env_kwargs}" if cfg.env_kwargs else ""
    return f"{cfg.env} cannot be made{given}: {one_line(error)}"


def _newest_version(name: str) -> str | None:
    """The registered id with the highest version of the same env; None for an unknown or malformed name."""
    try:
        namespace, base, _ = parse_env_id(name)
    except gym.error.Error:
        return None
    version = find_highest_version(namespace, base)
    return None if version is None else get_env_id(namespace, base, version)


def _newest_ids() -> list[str]:
    return [env_id for env_id in gym.registry if _newest_version(env_id) in (env_id, None)]

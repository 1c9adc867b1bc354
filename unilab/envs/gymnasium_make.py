"""One gymnasium env by id, and one sentence where that fails."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from unilab.errors import EnvError, nearest

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig


def make_one(cfg: EnvConfig) -> gym.Env[Any, Any]:
    """Build one env of ``cfg.env``; gymnasium's own checker is off, ``probe`` checks what matters here.

    Raises:
        EnvError: unknown id, failing import, or whatever the constructor raised, in one sentence.
    """
    _import_module_of(cfg.env)
    try:
        with _mujoco_warnings(cfg.env):
            return gym.make(cfg.env, **{"disable_env_checker": True, **cfg.env_kwargs})
    except Exception as error:
        raise EnvError(_reason(cfg, error)) from error


@contextlib.contextmanager
def _mujoco_warnings(env_id: str) -> Iterator[None]:
    """Route what MuJoCo says about a model to Python warnings, each shown once.

    On its own it prints every warning for every env and adds it to MUJOCO_LOG.TXT in the current folder. What it
    deprecates in a model file of a library is nothing that the user of that library can act on, and is left out.
    """

    registered = gym.registry.get(env_id.rpartition(":")[2])
    if "mujoco" not in sys.modules and "mujoco" not in str(registered and registered.entry_point):
        yield  # an env of another kind: spare it the import
        return
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


def one_line(error: BaseException) -> str:
    """``ValueError: boom`` without line breaks."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _import_module_of(env_id: str) -> None:
    """Import the module of a ``module:Id``, apart from ``gym.make`` so that its own errors stand out."""
    module, colon, _ = env_id.partition(":")
    if not colon:
        return
    try:
        importlib.import_module(module)
    except Exception as error:
        raise EnvError(f"{env_id}: cannot import module {module!r}: {one_line(error)}") from error


def _reason(cfg: EnvConfig, error: Exception) -> str:
    name = cfg.env.rpartition(":")[2]
    newest = _newest_version(name)
    if name not in gym.registry and newest is None:
        hint = nearest(name, _newest_ids()) or "; is it registered by a module? then use module:Id"
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

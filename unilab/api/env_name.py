"""From what a user calls an env to a name that every process of a run can make it from.

A class, a factory or an id that this program registered becomes ``module:Name`` with keyword arguments: the same words
that ``config.yaml`` keeps and the command line takes.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any, NoReturn

import gymnasium as gym

from unilab.envs.tasks import TASKS
from unilab.errors import ConfigError


def name_env(env: Any) -> tuple[str, dict[str, Any]]:
    """The id or ``module:Name`` of an env, and the keyword arguments that belong to it.

    Args:
        env: an id, ``module:Id``, an env class, or a function that makes an env; ``functools.partial`` of these with
            keywords.

    Raises:
        ConfigError: it has no name by which another process could find it; one sentence with the fix.
    """
    if isinstance(env, str):
        return _of_id(env)
    if isinstance(env, functools.partial):
        if env.args:
            raise ConfigError(f"env={env}: give the arguments by name, partial(Env, gain=2.0)")
        name, kwargs = name_env(env.func)
        return name, kwargs | env.keywords
    if not callable(env) or (hasattr(env, "step") and not isinstance(env, type)):
        _refuse_instance(env)
    return _of_callable(env), {}


def _of_id(name: str) -> tuple[str, dict[str, Any]]:
    if name.startswith("__main__:"):
        _refuse(name.partition(":")[2], "it is defined in the script or notebook itself")
    task = TASKS.get(name)
    if isinstance(task, type):  # a native task that the program registered
        module = _of_callable(task).partition(":")[0]
        return f"{module}:{name}", {}
    spec = gym.registry.get(name)
    if spec is None or ":" in name or _is_gymnasiums(spec):
        return name, {}
    if spec.additional_wrappers:
        raise ConfigError(
            f"env={name!r} was registered with additional_wrappers by this program, which other processes do not run; "
            f"register it in a module and pass 'module:{name}'"
        )
    limit = {} if spec.max_episode_steps is None else {"max_episode_steps": spec.max_episode_steps}
    entry = spec.entry_point
    if callable(entry):
        return _of_callable(entry), spec.kwargs | limit
    _of_callable(_find(str(entry)), str(entry))
    return str(entry), spec.kwargs | limit


def _is_gymnasiums(spec: gym.envs.registration.EnvSpec) -> bool:
    """Whether every process knows it that imports gymnasium."""
    entry = spec.entry_point
    module = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return module.split(".")[0].partition(":")[0] == "gymnasium"


def _of_callable(creator: Callable[..., Any], called: str = "") -> str:
    name: str = getattr(creator, "__qualname__", "") or type(creator).__qualname__
    module: str = getattr(creator, "__module__", None) or ""
    shown = called or name
    if "<lambda>" in name:
        _refuse("make_env", "it is a lambda")
    if "<locals>" in name:
        _refuse(shown.rpartition(".")[2], "it is defined inside a function")
    if module == "__main__":
        _refuse(shown, "it is defined in the script or notebook itself")
    if _find(f"{module}:{name}") is not creator and not called:
        _refuse(shown, f"module {module!r} does not have it under this name")
    return f"{module}:{name}"


def _find(path: str) -> Any:
    """What ``module:Name`` names; None if nothing."""
    module, _, name = path.partition(":")
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        return None


def _refuse(name: str, why: str) -> NoReturn:
    name = name.rpartition(":")[2]
    raise ConfigError(
        f"env={name} cannot be made in the processes that step it: {why}; put it into a file of its own, say "
        f"my_env.py, and pass my_env.{name} or 'my_env:{name}'"
    )


def _refuse_instance(env: Any) -> NoReturn:
    spec = getattr(env, "spec", None)
    given = f"'{spec.id}'" if spec is not None else "its id, class or a function that makes it"
    raise ConfigError(
        f"env is an instance of {type(env).__name__}; unilab makes its envs itself, in other processes: pass {given}, "
        "with num_envs and env_kwargs as you need them"
    )

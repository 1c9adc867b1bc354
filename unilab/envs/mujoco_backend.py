"""The native backend: which env ids it has, and whether it can do what a config asks of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.mujoco_log import log_to, model_warnings
from unilab.envs.mujoco_spec import task_spec
from unilab.envs.tasks import TASKS, task_class
from unilab.envs.tasks.base import Task
from unilab.errors import EnvError, nearest
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig, Host

_OURS = ("max_episode_steps", "stagger")
"""Keys of ``env_kwargs`` that are the env's, not the task's."""


def probe(cfg: EnvConfig) -> EnvSpec:
    """See ``registry.probe``."""
    task, limit, _ = _settings(cfg)
    with model_warnings():
        spec = task_spec(cfg.env, task, limit)
    log_to(None)
    return spec


def make(cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec | None, host: Host) -> MujocoBatchEnv:
    """See ``registry.make_env``."""
    task, limit, stagger = _settings(cfg)
    with model_warnings():
        own = task_spec(cfg.env, task, limit)
        for field in dataclasses.fields(EnvSpec):
            got, want = getattr(own, field.name), getattr(spec or own, field.name)
            if want != got:
                raise EnvError(f"{cfg.env}: {field.name} is {got}, but it was {want} when the env was probed")
        env = MujocoBatchEnv(
            task,
            own,
            seeds=seeds,
            first_index=first_index,
            threads=host.threads,
            stagger=stagger and host.role == "train",
        )
    log_to(host.log_dir)
    return env


def objection(cfg: EnvConfig) -> str | None:
    """Why the native task of ``cfg`` cannot do what is asked of it; None: it can."""
    if cfg.vec == "async":
        return "vec=async has no effect on a native task, which steps all envs at once"
    if cfg.critic_keys:
        return "critic_keys needs a Dict observation, which a native task does not have"
    if cfg.action_bound is not None:
        return "action_bound has no effect on a native task, whose actions are bounded"
    known = [field.name for field in _options(cfg)]
    for key in cfg.env_kwargs:
        if key not in (*known, *_OURS):
            return f"the native task has no option {key!r}{nearest(key, (*known, *_OURS))}"
    return None


def _settings(cfg: EnvConfig) -> tuple[Task, int | None, bool]:
    """The task, its time limit, and whether first episodes are staggered.

    Raises:
        EnvError: an option that the task does not have, or that has the wrong type.
    """
    kwargs: dict[str, Any] = dict(cfg.env_kwargs)
    cls = task_class(_name(cfg))
    limit = kwargs.pop("max_episode_steps", cls.max_episode_steps)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < -1 or limit == 0):
        raise EnvError(f"{cfg.env}: max_episode_steps={limit!r} must be a positive whole number, or -1 for no limit")
    stagger = kwargs.pop("stagger", True)
    if not isinstance(stagger, bool):
        raise EnvError(f"{cfg.env}: stagger={stagger!r} must be true or false")
    for name, hint in get_type_hints(cls).items():
        if name in kwargs:
            kwargs[name] = _checked(f"{cfg.env}: {name}", hint, kwargs[name])
    try:
        return cls(**kwargs), None if limit == -1 else limit, stagger
    except (TypeError, ValueError) as error:
        raise EnvError(f"{cfg.env} cannot be made with env_kwargs {cfg.env_kwargs}: {error}") from error


def _checked(where: str, hint: Any, value: Any) -> Any:
    """The value of an option as its annotation wants it; whole numbers are numbers, lists of numbers are ranges."""
    for kind in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        if dataclasses.is_dataclass(kind):
            return _nested(where, kind, value)
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise EnvError(f"{where}={value!r} must be one of {', '.join(get_args(kind))}")
            return value
        if get_origin(kind) is tuple:
            if isinstance(value, list | tuple) and len(value) == len(get_args(kind)):
                return tuple(_checked(where, item, part) for item, part in zip(get_args(kind), value, strict=True))
        elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        elif type(value) is kind:
            return value
    raise EnvError(f"{where}={value!r} must be of type {getattr(hint, '__name__', None) or hint}")


def _nested(where: str, kind: Any, value: Any) -> Any:
    """A dataclass of options, from a mapping of those that are not at their default."""
    if not isinstance(value, Mapping):
        raise EnvError(f"{where}={value!r} must be a mapping of names to values")
    hints = {field.name: get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}
    for key in value:
        if key not in hints:
            raise EnvError(f"{where} has no option {key!r}{nearest(str(key), hints)}")
    try:
        return kind(**{key: _checked(f"{where}.{key}", hints[key], part) for key, part in value.items()})
    except ValueError as error:
        raise EnvError(f"{where}: {error}") from error


def _options(cfg: EnvConfig) -> Sequence[dataclasses.Field[Any]]:
    cls: Any = task_class(_name(cfg))
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _name(cfg: EnvConfig) -> str:
    name = cfg.env.rpartition(":")[2]
    assert name in TASKS
    return name

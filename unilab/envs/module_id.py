"""``module:Id``: the module that registers an env, or that has it under this name, is imported first."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

from unilab.errors import EnvError


def import_module_of(env_id: str) -> str:
    """Import the module of a ``module:Id``, apart from what makes the env, so that its own errors stand out.

    Returns:
        The id without the module.

    Raises:
        EnvError: the import failed, in one sentence.
    """
    module, colon, name = env_id.partition(":")
    if not colon:
        return env_id
    try:
        importlib.import_module(module)
    except Exception as error:
        raise EnvError(f"{env_id}: cannot import module {module!r}: {one_line(error)}") from error
    return name


def creator_in_module(env_id: str) -> Callable[..., Any] | None:
    """What ``module:Name`` names in its module: an env class, or a function that makes an env; None if nothing.

    Raises:
        EnvError: the import failed, in one sentence.
    """
    import_module_of(env_id)
    module, colon, name = env_id.partition(":")
    try:
        found = operator.attrgetter(name)(importlib.import_module(module)) if colon else None
    except AttributeError:
        return None
    return found if callable(found) else None


def one_line(error: BaseException) -> str:
    """``ValueError: boom`` without line breaks."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"

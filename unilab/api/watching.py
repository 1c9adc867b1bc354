"""What a callback of ``learn`` sees of a run, and how it ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from unilab.errors import ConfigError
from unilab.workers import EvaluationResult


@dataclass(frozen=True, slots=True)
class TickInfo:
    """A run after a tick: ``num_envs x steps_per_tick`` env steps and their updates."""

    num_timesteps: int
    """Env steps so far, prefill included, over all calls of ``learn``."""
    scalars: Mapping[str, float]
    """``rollout/*``, ``train/*``, ``time/*`` and so on as they were last written; empty before the first time."""
    evaluation: Mapping[str, float] | None
    """``eval/*`` of the newest evaluation since ``learn`` began; None before the first."""


Callback = Callable[[TickInfo], Any]
"""Called after each tick; False ends the run, completed and saved. What it raises ends it too, saved."""


class Watch:
    """Puts ticks to callbacks."""

    def __init__(self, callback: Callback | Sequence[Callback] | None) -> None:
        """Take one callback, several, or none.

        Raises:
            ConfigError: something else.
        """
        several: Sequence[Any] = callback if isinstance(callback, Sequence) else [callback] if callback else []
        for one in several:
            if not callable(one):
                raise ConfigError(
                    f"callback={one!r} must be a function of one argument, which has num_timesteps, scalars and "
                    "evaluation, and may return False to end the run"
                )
        self._callbacks: list[Callback] = list(several)
        self._result: EvaluationResult | None = None
        self._evaluation: Mapping[str, float] | None = None

    def tick_done(self, env_steps: int, scalars: Mapping[str, float], result: EvaluationResult | None) -> bool:
        """See ``Hooks.tick_done``."""
        if not self._callbacks:
            return True
        if result is not self._result and result is not None:
            self._result, self._evaluation = result, MappingProxyType(result.scalars())
        info = TickInfo(env_steps, MappingProxyType(dict(scalars)), self._evaluation)
        said = [callback(info) for callback in self._callbacks]
        return not any(isinstance(word, bool | np.bool_) and not word for word in said)

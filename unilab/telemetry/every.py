"""When something is due: every so many env steps, every so many seconds.

One rule for both: an interval of 0 means never.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from unilab.errors import ConfigError


class Every:
    """Due once each time ``env_steps`` crosses a multiple of ``interval_steps``, at any stride.

    Multiples count from 0, not from the start, so that a resumed run keeps the rhythm of the first.
    """

    def __init__(self, interval_steps: int, *, start_steps: int = 0) -> None:
        """Start counting.

        Args:
            interval_steps: env steps between two events; 0 = never.
            start_steps: env steps already done (resume): crossings up to here are not due again.

        Raises:
            ConfigError: the interval is negative.
        """
        if interval_steps < 0:
            raise ConfigError(f"interval_steps={interval_steps} is negative; use 0 for never")
        self._interval_steps = interval_steps
        self._crossed = start_steps // interval_steps if interval_steps else 0

    def due(self, env_steps: int) -> bool:
        """Whether a multiple was crossed since the last call that said so; several at once count as one."""
        if not self._interval_steps:
            return False
        crossed = env_steps // self._interval_steps
        due = crossed > self._crossed
        self._crossed = max(crossed, self._crossed)
        return due


class EverySeconds:
    """Due once ``interval_s`` has passed since the start or the last time; a late one shifts the rest."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start counting.

        Args:
            interval_s: seconds; 0 = never.
            clock: seconds, never going back.

        Raises:
            ConfigError: the interval is negative.
        """
        if interval_s < 0:
            raise ConfigError(f"interval_s={interval_s} is negative; use 0 for never")
        self._interval_s = interval_s or float("inf")
        self._clock = clock
        self._last_s = clock()

    def due(self) -> bool:
        """Whether the interval has passed."""
        now_s = self._clock()
        if now_s - self._last_s < self._interval_s:
            return False
        self._last_s = now_s
        return True

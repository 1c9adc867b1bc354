"""Ctrl-C, SIGTERM and a terminal that is closed: the first asks to stop and save, the second ends at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from unilab.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ECHO_S = 0.2
"""The same signal again within this time is the first one: the terminal signals the whole group, and a launcher in it
(`timeout`, `srun`, some containers' init) forwards what it got. Nobody presses Ctrl-C twice that fast."""


class Interrupt:
    """Catches the signals while the block runs.

    Args:
        on_first: called in the handler; must be quick and must not take a lock.
        on_second: called before the process ends, to take others with it.
    """

    def __init__(self, on_first: Callable[[], None], on_second: Callable[[], None]) -> None:
        self._on_first = on_first
        self._on_second = on_second
        self.signal: signal.Signals | None = None
        """The signal that came, or None."""
        self._came_s = 0.0
        self._breaks = False  # the first signal breaks off what runs

    @property
    def exit_code(self) -> int:
        """128 plus the signal's number, as shells report it; 0 without a signal."""
        return 128 + self.signal if self.signal else 0

    def age_s(self) -> float:
        """Seconds since the signal; 0 without one."""
        return time.monotonic() - self._came_s if self.signal else 0.0

    def __bool__(self) -> bool:
        return self.signal is not None

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """For what takes long, never looks up and leaves nothing half done: the first signal breaks it off.

        Raises:
            Stopped: a signal came, now or before.
        """
        try:
            self._breaks = True
            if self.signal is None:
                yield
        except BaseException:
            if self.signal is None:
                raise
        finally:
            self._breaks = False
        if self.signal is not None:
            raise Stopped(f"broken off by {self.signal.name}")

    def __enter__(self) -> Interrupt:
        # Python runs handlers in the main thread only; elsewhere (a notebook's worker) the caller keeps its own.
        self._before = (
            {number: signal.signal(number, self._handle) for number in SIGNALS if not _from_nohup(number)}
            if threading.current_thread() is threading.main_thread()
            else {}
        )
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # None: a handler that C code installed, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self._came_s = time.monotonic()
            self.signal = signal.Signals(number)
            self._on_first()
            if self._breaks:
                raise KeyboardInterrupt  # which nobody on the way takes for a failure of their own
        elif number != signal.SIGHUP and (number != self.signal or self.age_s() >= _ECHO_S):
            # A closed terminal, its shell and its launcher may all hang up, one after the other.
            self._on_second()
            os._exit(128 + number)


def _from_nohup(number: signal.Signals) -> bool:
    """Whether the run is to go on when its terminal is closed."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN

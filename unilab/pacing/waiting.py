"""Waiting for a process that steps envs, for as long as it shows signs of life."""

from __future__ import annotations

import time
from collections.abc import Callable

from unilab.errors import WaitTimeout, WorkerDied
from unilab.shm import Waiter

Look = Callable[[], None]
"""Called while a wait goes on, to report progress."""

_LOOK_S = 1.0

_LONGEST_TURN_S = 2 * _LOOK_S
"""More than this from one look to the next: the waiting process was stopped itself, perhaps together with the one that
it waits for (SIGSTOP, a paused container). No stall limit counts that time."""


def wait_while_alive(
    waiter: Waiter,
    condition: Callable[[], bool],
    rounds: Callable[[], int],
    what: str,
    *,
    who: str,
    stall_limit_s: float,
    doing: Callable[[], str] = lambda: "its env",
    look: Look | None = None,
) -> None:
    """Wait as ``Waiter.wait`` for a process that steps envs, for as long as it shows signs of life.

    Args:
        waiter: of this process.
        condition: what is awaited.
        rounds: how often all envs have been stepped; as long as it grows, the process lives.
        what: is awaited, for errors.
        who: is awaited, for errors.
        stall_limit_s: seconds without a round that end the wait.
        doing: what the process is in, for errors.
        look: called about once a second.

    Raises:
        WorkerDied: the process ended, or made no step for the stall limit.
        Stopped: the run was asked to stop.
    """
    if condition():
        return
    pulse, silent_s = Pulse(rounds), 0.0
    while True:
        try:
            waiter.wait(condition, what, max(0.0, min(_LOOK_S, stall_limit_s - silent_s)))
            return
        except WaitTimeout:
            if look:
                look()
        silent_s = pulse.silent_s()
        if silent_s >= stall_limit_s:
            raise stuck(who, silent_s, what, doing(), rounds())


def stuck(who: str, silent_s: float, what: str, doing: str, rounds: int) -> WorkerDied:
    """The error for a process that has made no step for too long."""
    return WorkerDied(
        f"no data from {who} for {silent_s:.0f} s, while waiting for {what}: it is stuck in {doing} or "
        f"stopped (round {rounds}); if its steps are that slow, raise --stall-limit",
        worker=who,
    )


class Pulse:
    """How long a process that counts its rounds has been silent.

    Args:
        rounds: its count so far.
    """

    def __init__(self, rounds: Callable[[], int]) -> None:
        self._rounds = rounds
        self._seen, self._silent_s, self._looked_s = rounds(), 0.0, time.monotonic()

    def beat(self) -> None:
        """It has nothing to do: its silence counts from now on."""
        self._silent_s, self._looked_s = 0.0, time.monotonic()

    def silent_s(self) -> float:
        """Seconds without a round, up to this look; long gaps between looks count little: we may have been stopped."""
        rounds, now = self._rounds(), time.monotonic()
        self._silent_s += min(now - self._looked_s, _LONGEST_TURN_S)
        if rounds != self._seen:
            self._silent_s = 0.0
        self._seen, self._looked_s = rounds, now
        return self._silent_s

"""The one way to wait for another process (docs/design.md, contract 7).

A ``Bell`` is one eventfd (a pipe where there is none). Each waiter owns one bell; whoever changes something that
the waiter may be waiting for rings it afterwards. ``Waiter.wait`` sleeps in ``poll`` until its condition holds,
the run stops, a peer dies or a deadline passes, and it never busy-polls.

Death is seen through pidfds: a pipe's end or a sentinel stays silent while a grandchild holds it open.

Measured one way between two idle processes here: eventfd or pipe 36 us, semaphore 35-39, Queue 61, Event 123,
Condition 119: below 35-40 us only spinning gets, and that steals a core.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any

from unilab.errors import Stopped, WaitTimeout, WorkerDied
from unilab.shm.segment import receive_descriptor

_ONE = (1).to_bytes(8, "little")
_PIPE_BYTES = 2**16  # all that a pipe holds
_LONGEST_SLEEP_S = 1.0
"""A signal that arrives in the instant before the sleep interrupts nothing, and Python runs its handler only after
the sleep: so no sleep is long."""

_LONGEST_TURN_S = 2 * _LONGEST_SLEEP_S
"""More than this from one look to the next: this process was stopped itself (SIGSTOP, a paused container), perhaps
together with what it waits for. That is nobody's delay, so a deadline does not count it."""


class Bell:
    """Wakes its one owner; rung by anyone who holds it, also from a signal handler."""

    def __init__(self, *, use_eventfd: bool = hasattr(os, "eventfd")) -> None:
        if use_eventfd:
            self._read = self._write = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def ring(self) -> None:
        """Wake the owner now, or make its next wait return at once; never blocks."""
        # A full counter or pipe means that it rings already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, _ONE)

    def silence(self) -> None:
        """Take back what was rung so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, _PIPE_BYTES)

    def fileno(self) -> int:
        """Descriptor to poll for input."""
        return self._read

    def close(self) -> None:
        """Close the descriptors of this process; safe to call twice."""
        for descriptor in {self._read, self._write} - {-1}:
            os.close(descriptor)
        self._read = self._write = -1

    def __reduce__(self) -> tuple[Any, ...]:
        write = None if self._write == self._read else reduction.DupFd(self._write)
        return _receive_bell, (reduction.DupFd(self._read), write)


def _receive_bell(read: Any, write: Any) -> Bell:
    bell = Bell.__new__(Bell)
    bell._read = receive_descriptor(read)
    bell._write = bell._read if write is None else receive_descriptor(write)
    return bell


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that a waiter depends on."""

    name: str
    descriptor: int  # readable once there may be something wrong: its pidfd, or the pipe that it reports on
    explain: Callable[[], Exception | None] | None = None
    """What to raise now that the descriptor is readable, None if all is well; absent: it has ended."""

    def trouble(self) -> Exception | None:
        """The error to raise, if any, now that the descriptor is readable."""
        return self.explain() if self.explain else WorkerDied(f"{self.name} has ended")


class Waiter:
    """Waits with an exit: on the data, on stop, on a peer's death or on a deadline.

    Args:
        bell: this waiter's own bell.
        stopped: tells whether the run was asked to stop; whoever makes it true rings ``bell``.
        peers: processes whose end ends every wait.
    """

    def __init__(self, bell: Bell, stopped: Callable[[], bool] = lambda: False, peers: Sequence[Peer] = ()) -> None:
        self.bell = bell
        self._stopped = stopped
        self.watch(peers)

    def watch(self, peers: Sequence[Peer]) -> None:
        """Depend on these processes from now on, instead of those before."""
        self._peers = {peer.descriptor: peer for peer in peers}
        self._poll = select.poll()
        for descriptor in (self.bell.fileno(), *self._peers):
            self._poll.register(descriptor, select.POLLIN)

    def idle(self) -> Waiter:
        """Another waiter on the same bell, for whoever depends on nobody while there is nothing to do."""
        return Waiter(self.bell)

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float | None = None) -> None:
        """Return once ``condition()`` holds.

        The condition is looked at before the first sleep and after each ring; what it reads must be written
        before the bell is rung. It also wins over a peer that has just died: data that is there is used.

        Args:
            condition: cheap and free of side effects.
            what: what is awaited, for the error text.
            deadline_s: seconds from now in which this process is not stopped itself, or None to rely on stop and
                death alone.

        Raises:
            Stopped: the run was asked to stop.
            WorkerDied: a peer ended (or what its ``explain`` gives).
            WaitTimeout: the deadline passed.
        """
        if condition():
            return
        waited_s, looked = 0.0, time.monotonic()
        while True:
            if self._stopped():
                raise Stopped(f"stopped while waiting for {what}")
            now = time.monotonic()
            waited_s, looked = waited_s + min(now - looked, _LONGEST_TURN_S), now
            left = None if deadline_s is None else deadline_s - waited_s
            if left is not None and left <= 0:
                raise WaitTimeout(f"waited {deadline_s:g} s for {what}")
            sleep_s = _LONGEST_SLEEP_S if left is None else min(left, _LONGEST_SLEEP_S)
            ready = {descriptor for descriptor, _ in self._poll.poll(sleep_s * 1e3)}
            if self.bell.fileno() in ready:
                self.bell.silence()
            if condition():
                return
            for descriptor in ready & self._peers.keys():
                if trouble := self._peers[descriptor].trouble():
                    raise trouble

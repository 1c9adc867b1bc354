"""A process that is asked one thing, watched, and ended with all that it has started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unilab.interrupt import Interrupt
from unilab.shm import Bell, Waiter
from unilab.workers import Worker

_GRACE_S = 3.0


class Children:
    """Runs one child after the other for as long as the block lasts; an interrupt ends the one that runs.

    Ctrl-C or SIGTERM makes ``ask`` raise ``Stopped``; a second one ends this process at once.
    """

    def __init__(self) -> None:
        self._bell = Bell()
        self._worker: Worker | None = None
        self.interrupt = Interrupt(on_first=self._bell.ring, on_second=self._kill)

    def __enter__(self) -> Children:
        self.interrupt.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.interrupt.__exit__()
        self._bell.close()

    def ask(self, name: str, target: Callable[..., None], job: Any, *, threads: int, deadline_s: float) -> Any:
        """The payload of the child's message "result"; the child has ended when this returns.

        Raises:
            WaitTimeout: not within the deadline.
            WorkerDied: the child ended without it.
            Stopped: interrupted.
        """
        worker = self._worker = Worker(name, target, (job,), threads=threads, bell=self._bell)
        grace_s = 0.0
        try:
            waiter = Waiter(self._bell, lambda: bool(self.interrupt), worker.peers())
            waiter.wait(lambda: worker.received("result"), name, deadline_s)
            grace_s = _GRACE_S
            return worker.take_message("result")
        finally:
            worker.stop(grace_s)

    def _kill(self) -> None:
        if self._worker:
            self._worker.kill()

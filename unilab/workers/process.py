"""A spawned worker as its parent sees it: start, handshake, watch, stop, kill.

The start method is spawn: a fork would copy locks, threads and a CUDA context in whatever state they are. Threads
are limited by environment variables that are set around the start, because they only count when numpy and torch
are first imported, and ``torch.set_num_threads`` in the parent does not reach a child.

Each worker is the leader of a process group of its own. So Ctrl-C on the terminal reaches the learner alone, and the
helpers that an env starts can be ended together with the worker. A helper that leaves the group is still found by an
environment variable that all descendants of a worker inherit.

The main module of the program is not imported again: scripts need no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from unilab.errors import WaitTimeout, WorkerDied
from unilab.shm import Bell, Peer, Waiter
from unilab.workers.child import MARKER, child_main, kill_family

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

_HANG_UP_S = 1.0

_LIKELY_CAUSE = {
    signal.SIGKILL: "often the kernel, out of memory; see `dmesg`",
    signal.SIGBUS: "a memory mapping could not be backed, often out of memory",
    signal.SIGSEGV: "a crash in native code of the env or a library",
    signal.SIGABRT: "native code gave up, see its message above",
}


class Worker:
    """Handle of one spawned process.

    Args:
        name: such as "collector-0".
        target: ``target(link, *args)`` in the child.
        args: picklable; shared memory and bells are handed over as descriptors.
        threads: for numpy and torch in the child.
        bell: rung by the child after each message.
        output: file that what it and its helpers print is appended to; None: where this process prints.
        cores: that it keeps to; None: those of this process.
    """

    def __init__(
        self,
        name: str,
        target: Callable[..., None],
        args: tuple[Any, ...],
        *,
        threads: int,
        bell: Bell,
        output: Path | None = None,
        cores: frozenset[int] | None = None,
    ) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._conn, child_conn = context.Pipe()
        self._inbox: dict[str, Any] = {}
        self._hung_up = False
        self._lock = threading.Lock()  # main thread and packer both look into the inbox
        self._process = context.Process(
            target=child_main, args=(name, child_conn, bell, os.getpid(), target, args, output, cores), name=name
        )
        self._mark = f"{os.getpid()}.{name}.{secrets.token_hex(8)}"
        resource_tracker.ensure_running()  # before the environment changes: it is no descendant of a worker
        variables = {variable: str(threads) for variable in _THREAD_VARIABLES} | {MARKER: self._mark}
        with _environment(variables), _without_interrupts(), _without_main():
            self._process.start()
        child_conn.close()
        self._pidfd = _open_pidfd(self._process)

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not been stopped from here; it may have died."""
        return self._pidfd >= 0

    def peers(self) -> list[Peer]:
        """What a ``Waiter`` that depends on this worker has to watch: its life and its messages."""
        return [
            Peer(self.name, self._pidfd, self.failure),
            Peer(self.name, self._conn.fileno(), self.failure),
        ]

    def wait_message(
        self, kind: str, waiter: Waiter, what: str, deadline_s: float, doing: Callable[[], str] = lambda: "its env"
    ) -> Any:
        """The payload of the next message of this kind; ``doing`` says for an error what the worker is in.

        Raises:
            WorkerDied: the worker failed, ended, or did not send it within the deadline.
        """
        try:
            waiter.wait(lambda: self.received(kind), what, deadline_s)
        except WaitTimeout as error:
            raise WorkerDied(f"{self.name} (pid {self.pid}) is stuck in {doing()}: {error}", self.name) from None
        return self.take_message(kind)

    def received(self, kind: str) -> bool:
        """Whether a message of this kind has come."""
        self._pump()
        return kind in self._inbox

    def take_message(self, kind: str) -> Any:
        """The payload of a message that has been received; the next one is another."""
        with self._lock:
            return self._inbox.pop(kind)

    def failure(self) -> Exception | None:
        """Why the worker is no longer of use, or None while it is.

        Its own traceback where it could send one, otherwise the signal and a likely cause.
        """
        self._pump()
        if "failed" in self._inbox:
            return WorkerDied(self._inbox["failed"], self.name)
        if self._hung_up:
            self._process.join(_HANG_UP_S)  # usually the first sign of its end
        if self._process.is_alive():
            gone = WorkerDied(f"{self.name} (pid {self.pid}) lives, but has closed its line to the learner", self.name)
            return gone if self._hung_up else None
        self._pump()  # what it sent between the first look and its end
        if "failed" in self._inbox:
            return WorkerDied(self._inbox["failed"], self.name)
        return WorkerDied(f"{self.name} (pid {self.pid}) {_describe_exit(self._process.exitcode)}", self.name)

    def stop(self, grace_s: float) -> None:
        """End the worker and whatever its env started: wait (the caller has asked), then kill; safe to call twice."""
        if self._pidfd < 0:
            return
        self._process.join(grace_s)
        self.kill()
        self._process.join()
        self._conn.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def kill(self) -> None:
        """SIGKILL to the worker and its helpers; does not wait, safe in a signal handler."""
        kill_family(self.pid, self._mark)

    def _pump(self) -> None:
        with self._lock:
            try:
                while self._conn.poll():
                    kind, payload = self._conn.recv()
                    self._inbox[kind] = payload
            except (EOFError, OSError):
                self._hung_up = True


def _describe_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended too early with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:  # most real-time signals have no name
        return f"was killed by signal {-code}"
    cause = _LIKELY_CAUSE.get(number)
    return f"was killed by signal {-code} ({number.name})" + (f": {cause}" if cause else "")


def _open_pidfd(process: Any) -> int:
    """A descriptor that becomes readable when the process ends, whoever else holds its pipes."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(process.pid)
    return os.dup(process.sentinel)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold SIGINT back; a process that is started meanwhile holds it back until it has left the terminal's group."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Start a process that does not import the program's main module.

    Nothing of it is needed, and a script without a main guard, run again in the child, would train in there too.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for as long as the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""The worker's side of its own life: what runs first and last in a spawned process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from unilab.errors import Stopped, UnilabError
from unilab.output import keep_output_harmless
from unilab.shm import Bell, Peer
from unilab.workers.plain import to_bytes

MARKER = "UNILAB_WORKER"
"""Environment variable that a worker and all its descendants carry."""

_PR_SET_PDEATHSIG = 1


class Link:
    """A worker's line to its parent.

    Args:
        name: of this worker.
        conn: to the parent.
        bell: the parent's; rung after each message.
        parent_pid: of the process that started this one.
    """

    def __init__(self, name: str, conn: Connection, bell: Bell, parent_pid: int) -> None:
        self.name = name
        self._conn = conn
        self._bell = bell
        self._parent = os.pidfd_open(parent_pid) if hasattr(os, "pidfd_open") else _parent_sentinel()

    def send(self, kind: str, payload: Any = None) -> None:
        """Send a small message to the parent."""
        with contextlib.suppress(BrokenPipeError):
            self._conn.send_bytes(to_bytes((kind, payload)))
            self._bell.ring()

    def parent(self) -> Peer:
        """The parent, for a ``Waiter``."""
        return Peer("learner", self._parent)


def child_main(
    name: str,
    conn: Connection,
    bell: Bell,
    parent_pid: int,
    target: Callable[..., None],
    args: tuple[Any, ...],
    output: Path | None = None,
    cores: frozenset[int] | None = None,
) -> None:
    """Run ``target(link, *args)`` and tell the parent how it failed, if it does; print to ``output`` if it is given."""
    os.setpgid(0, 0)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    if output is not None:
        _print_to(output)
    keep_output_harmless()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the learner decides what Ctrl-C means
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back by the parent until here
    _close_on_exec()
    try:
        link = Link(name, conn, bell, parent_pid)
    except ProcessLookupError:
        _end_group()  # the parent died while this process started
        return
    _die_with_parent(link.parent().descriptor, parent_pid)
    code = 0
    try:
        target(link, *args)
    except Stopped:
        pass
    except BaseException as error:
        if isinstance(error, SystemExit):
            error = RuntimeError(f"sys.exit({error.code!r}) was called in {name}")
        link.send("failed", describe(name, error))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a thread or an exit hook of the env may never end, and torch takes half a second to tear down.
    os._exit(code)


def _print_to(path: Path) -> None:
    """Descriptors 1 and 2 of this process and its helpers are this file from now on; on no disk, nowhere."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError:
        file = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)


def _close_on_exec() -> None:
    """What arrived with the start of this process must not reach the programs that an env starts."""
    for entry in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if int(entry) > 2:
                os.set_inheritable(int(entry), False)


def describe(name: str, error: BaseException) -> str:
    """What the console shows of a worker's failure; errors of our own are clear without a traceback."""
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, UnilabError):
        return f"{name}: {error}{notes}"
    said = " ".join(traceback.format_exception_only(error)[0].split())
    return f"{name} failed: {said}\n{''.join(traceback.format_exception(error)).rstrip()}"


def _die_with_parent(parent: int, parent_pid: int) -> None:
    """End this worker and its helpers as soon as the parent has gone, SIGKILL included.

    A thread sleeps on the parent's pidfd and kills the whole group. The kernel's parent-death signal does the same
    through a handler if the thread cannot run; it is SIGHUP because a SIGKILL from the kernel would leave the helpers.
    The handler looks twice: that signal also comes when only the parent's starting thread has ended.
    """

    def on_hangup(*_: object) -> None:
        if os.getppid() != parent_pid:
            _end_group()

    def watch() -> None:
        select.select([parent], [], [])
        _end_group()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
    signal.signal(signal.SIGHUP, on_hangup)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
    if os.getppid() != parent_pid:
        _end_group()


def kill_family(leader: int, mark: str) -> None:
    """SIGKILL to a worker and to all that its env started, except this process; elsewhere than on Linux, its group."""
    if not os.path.isdir("/proc/self"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        return
    for pid in family(leader, mark):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def family(leader: int, mark: str) -> Iterator[int]:
    """A worker and all that its env started, except this process, on Linux.

    These are the processes of its group and those that carry its mark. A resource tracker among them is
    spared: it ends by itself once the others have gone, and first removes the semaphores that they have left in
    /dev/shm.
    """
    wanted = f"{MARKER}={mark}".encode()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(entry) != os.getpid() and _belongs(entry, leader, wanted):
                yield int(entry)


def _belongs(entry: str, leader: int, wanted: bytes) -> bool:
    group = int(_read(entry, "stat").rpartition(b")")[2].split()[2])
    if group != leader and wanted not in _read(entry, "environ").split(b"\0"):
        return False
    return b"multiprocessing.resource_tracker" not in _read(entry, "cmdline")


def _read(entry: str, name: str) -> bytes:
    with open(f"/proc/{entry}/{name}", "rb") as file:
        return file.read()


def _end_group() -> None:
    """SIGKILL to all that the env of this worker started, then to the worker itself."""
    kill_family(os.getpgrp(), os.environ.get(MARKER, ""))
    os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _parent_sentinel() -> int:
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None
    return parent.sentinel

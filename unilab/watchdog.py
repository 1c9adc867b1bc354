"""A deadline for code of others that runs in the learner's own process, before there is anything to save.

A thread looks at the clock: the code may hang where no signal handler of Python runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from unilab.errors import EnvError, UsageError

Deadline = Callable[[float, str], AbstractContextManager[None]]
"""Seconds that a block may take, and what it does, for the message."""

_NATIVE_S = 5.0  # to leave Python code, or a wait that a signal interrupts


@contextmanager
def ending_deadline(limit_s: float, what: str) -> Iterator[None]:
    """End the process, with the caller's stack and one sentence, if the block takes longer.

    Only code that hangs in C without releasing Python's lock is out of reach; Ctrl-C twice does not reach it either,
    SIGKILL does.
    """
    caller = threading.get_ident()

    def end() -> None:
        sys.stderr.write(f"{_stack(caller)}error: {_sentence(limit_s, what, '--start-limit')}\n")
        sys.stderr.flush()
        os._exit(UsageError.exit_code)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def raising_deadline(limit_s: float, what: str) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C would, if it takes longer: the program around the run, a notebook say, goes on.

    Native code that hangs is out of reach; then the caller's stack is printed, with what can be done.

    Raises:
        EnvError: it took longer; the cause is where it was.
    """
    caller, in_main = threading.get_ident(), threading.current_thread() is threading.main_thread()
    lock, over, expired = threading.Lock(), threading.Event(), threading.Event()

    def watch() -> None:
        if over.wait(limit_s):
            return
        with lock:
            if over.is_set():
                return
            expired.set()
            _interrupt(caller, in_main)
        if not over.wait(_NATIVE_S):
            sys.stderr.write(
                f"{_stack(caller)}error: {_sentence(limit_s, what, 'start_limit_s')}; it is in native code, which "
                "Python cannot interrupt: restart the program\n"
            )

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not over.is_set():  # else it was done just in time
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal) if in_main else None
    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt as error:
        if expired.is_set():
            raise EnvError(_sentence(limit_s, what, "start_limit_s")) from error
        raise
    finally:
        over.set()
        with lock:  # an interrupt is sent by now, or never
            if in_main:
                signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
            else:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), None)


def _interrupt(caller: int, in_main: bool) -> None:
    if in_main:  # a signal ends a sleep too
        signal.pthread_kill(caller, signal.SIGINT)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), ctypes.py_object(KeyboardInterrupt))


def _sentence(limit_s: float, what: str, option: str) -> str:
    return f"it is stuck: {what} took more than {limit_s:g} s ({option}); nothing ran yet"


def _stack(thread: int) -> str:
    return "".join(traceback.format_stack(sys._current_frames()[thread]))

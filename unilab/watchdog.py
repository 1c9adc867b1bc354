"""A deadline for code of others that runs in the learner's own process, before there is anything to save."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from unilab.errors import UsageError


@contextmanager
def deadline(limit_s: float, what: str) -> Iterator[None]:
    """End the process, with the caller's stack and one sentence, if the block takes longer.

    A thread does it: the block may hang where no signal handler of Python runs. Only code that hangs in C without
    releasing Python's lock is out of reach; Ctrl-C twice does not reach it either, SIGKILL does.

    Args:
        limit_s: seconds.
        what: the block does, for the message.
    """
    caller = threading.get_ident()

    def end() -> None:
        stack = "".join(traceback.format_stack(sys._current_frames()[caller]))
        sys.stderr.write(
            f"{stack}error: it is stuck: {what} took more than {limit_s:g} s (--start-limit); nothing ran yet\n"
        )
        sys.stderr.flush()
        os._exit(UsageError.exit_code)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

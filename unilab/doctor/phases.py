"""What an env was doing, told from a stack: its constructor, reset, step or close."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable

_PHASES = {"make_one": "constructor", "_import_module_of": "module", "reset": "reset", "step": "step", "close": "close"}
_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')


def phase_of_error(error: BaseException) -> str:
    """The phase in which an exception was raised, its causes included."""
    names: list[str] = []
    link: BaseException | None = error
    while link is not None:
        names += [frame.name for frame in traceback.extract_tb(link.__traceback__)]
        link = link.__cause__
    return _phase(names)


def phase_of_dump(dump: str) -> str:
    """The phase that a ``faulthandler`` dump of all threads shows."""
    return _phase(match[2] for line in reversed(main_thread(dump).splitlines()) if (match := _FRAME.match(line)))


def main_thread(dump: str) -> str:
    """The block of the thread that examines the env, most recent call first; the whole text if there is none."""
    blocks = re.split(r"\n(?=(?:Current thread|Thread) 0x)", dump)
    return next((block for block in blocks if "in examine_env" in block), dump)


def _phase(names: Iterable[str]) -> str:
    """The first of our calls into the env, outermost first; what it calls itself is its own business."""
    return next((_PHASES[name] for name in names if name in _PHASES), "start")

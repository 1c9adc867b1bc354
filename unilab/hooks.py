"""What the program around a run hears of it, and may ask of it; the defaults are the command line's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from unilab.watchdog import Deadline, ending_deadline
from unilab.workers import EvaluationResult

TickDone = Callable[[int, Mapping[str, float], EvaluationResult | None], bool]
"""Env steps so far, scalars as they were last written, newest evaluation of this start; False ends the run."""


def _stdout() -> TextIO | None:
    return sys.stdout


def _go_on(env_steps: int, scalars: Mapping[str, float], evaluation: EvaluationResult | None) -> bool:
    return True


def _nothing() -> None:
    pass


def _unheard(run_dir: Path) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Calls out of a run, all in the thread that trains."""

    stream: TextIO | None = field(default_factory=_stdout)
    """Where its lines go, or its panel if that is a terminal; None: nowhere."""
    opened: Callable[[Path], None] = _unheard
    """Told the run directory, once nothing can refuse the run any more but its parts."""
    tick_done: TickDone = _go_on
    """Asked after each tick; what it raises ends the run like any failure, saved."""
    second_interrupt: Callable[[], None] = _nothing
    """Called in the signal handler at the second Ctrl-C, the workers killed; if it returns, the process ends."""
    deadline: Deadline = ending_deadline
    """Around the env's code that runs in this process before the run."""

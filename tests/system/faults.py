"""What holds after every fault: nothing lives on, and what was saved can be used."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from program import SMALL, Program
from unilab.checkpoint import list_checkpoints, load_checkpoint

TOY = ["--env", "unilab/Toy-v0", "--num-envs", "2", "--learning-starts", "100", "--eval-episodes", "0", *SMALL]
"""A run that starts to train at once."""

LONG = [*TOY, "--total-steps", "1M"]


def run_dir(program: Program) -> Path:
    return (program.log_dir / "latest").resolve()


def checkpoints(program: Program) -> list[Path]:
    return list_checkpoints(run_dir(program) / "checkpoints")


def notes(program: Program) -> list[dict[str, object]]:
    file = program.log_dir / "notes.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def last_error(program: Program) -> str:
    """The last thing on the console."""
    return program.text[program.text.rindex("error: ") :]


def nothing_left(program: Program) -> None:
    """No process, no shared memory, and the newest checkpoint, if there is one, loads."""
    assert program.left_over() == []
    if saved := checkpoints(program):
        assert load_checkpoint(saved[-1])["env_steps"] > 0


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)

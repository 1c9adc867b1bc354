"""Programs of a test end with it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from program import Program, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program with these words; whatever is left of it is killed after the test."""
    programs: list[Program] = []

    def start_program(*words: str) -> Program:
        folder = tmp_path / f"log{len(programs)}"
        folder.mkdir()
        programs.append(Program(folder, words))
        return programs[-1]

    segments = set(os.listdir("/dev/shm"))
    yield start_program
    for program in programs:
        for pid in [program.process.pid, *program.descendants()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        program.process.wait()
    ours = [name for name in set(os.listdir("/dev/shm")) - segments if not name.startswith("sem.")]
    assert not ours, f"left in /dev/shm: {ours}"

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

    def start_program(*words: str, **how: str) -> Program:
        folder = tmp_path / f"log{len(programs)}"
        folder.mkdir()
        programs.append(Program(folder, words, **how))
        return programs[-1]

    segments = set(os.listdir("/dev/shm"))
    yield start_program
    for program in programs:
        for pid in [program.process.pid, *program.descendants()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        program.process.wait()
    new = set(os.listdir("/dev/shm")) - segments
    ours = [name for name in new if name.startswith(("unilab", "psm_", "torch_"))]  # other programs run too
    assert not ours, f"left in /dev/shm: {ours}"

"""A run on a terminal: the panel, what workers print, and the cause of an end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from program import ENVS, REPOSITORY, SMALL

WORDS = [*SMALL, "--num-envs", "2", "--learning-starts", "40", "--eval-episodes", "1"]


def on_a_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code, and all that the terminal got."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ENVS), "SAMPLE_ENV_OUT": str(folder), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "scripts/train.py"), "--log-dir", str(folder), *WORDS, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
    )
    os.close(theirs)
    received = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        received += data
    os.close(ours)
    return process.wait(30), received.decode(errors="replace")


def test_a_panel_and_above_it_what_the_env_says(tmp_path: Path) -> None:
    code, text = on_a_terminal(
        tmp_path, "--env", "fault_envs:Fault-v0", "--env-kwargs", "where=step", "how=talk", "-n", "400"
    )

    assert code == 0, text
    assert "╭" in text
    assert "100.0%" in text
    assert "the env says something" in text
    said = (tmp_path / "latest/workers.log").read_text()
    assert said.count("the env says something") >= 2 * 400
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


def test_the_cause_of_an_end_is_the_last_thing_on_a_terminal_too(tmp_path: Path) -> None:
    code, text = on_a_terminal(
        tmp_path, "--env", "fault_envs:Fault-v0", "--env-kwargs", "where=step", "how=raise", "-n", "4000"
    )

    assert code == 70, text
    assert "on purpose in step" in text[text.rfind("╯") :]
    assert text.rstrip().splitlines()[-2:] == ["ValueError: on purpose in step", "env index 0, step 60"]

"""A console that nobody reads, or that is gone, changes nothing; a terminal that is closed saves the run."""

from __future__ import annotations

import os
import signal

import pytest

from faults import LONG, TOY, checkpoints, nothing_left
from program import Start

SHORT = [*TOY, "--eval-episodes", "1", "--total-steps", "1000"]
TALKS = ["--env", "fault_envs:Fault-v0", "--env-kwargs", "where=step", "how=talk", "who=any"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "redirect",
    [
        "<&- >&- 2>&-",
        "> >(head -n 2) 2>&1",
        pytest.param(">&-", marks=pytest.mark.slow),
        pytest.param("2>&-", marks=pytest.mark.slow),
        pytest.param("<&-", marks=pytest.mark.slow),
        pytest.param(">/dev/full 2>&1", marks=pytest.mark.slow),
    ],
)
def test_a_console_that_cannot_be_written_ends_no_run(start: Start, redirect: str) -> None:
    program = start(*SHORT, *TALKS, shell=f'exec "$@" {redirect}')

    assert program.end() == 0, program.text
    assert program.summary["status"] == "completed"
    assert "Traceback" not in program.text
    nothing_left(program)


def test_a_refusal_without_a_console_keeps_its_exit_code(start: Start) -> None:
    program = start("--env", "NoSuchEnv-v0", shell='exec "$@" >&- 2>&-')

    assert program.end() == 2


def test_a_terminal_that_is_closed_saves_the_run(start: Start) -> None:
    program = start(*LONG)
    program.training()
    for _ in range(2):  # its shell hangs up too
        os.kill(program.process.pid, signal.SIGHUP)

    assert program.end(15) == 129, program.text
    assert program.summary["status"] == "interrupted"
    assert checkpoints(program)
    nothing_left(program)


@pytest.mark.slow
def test_under_nohup_a_run_outlives_its_terminal(start: Start) -> None:
    program = start(*TOY, "--total-steps", "4000", shell='exec nohup "$@"')
    program.until(lambda: "phase=prefill" in program.text, "the prefill")
    os.kill(program.process.pid, signal.SIGHUP)

    assert program.end() == 0, program.text

"""Ctrl-C at any moment of a run: what was learnt is saved, nothing raises, a second one ends at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from faults import LONG, SMALL, checkpoints, notes, nothing_left
from program import Program, Start

ENV = ["--env", "fault_envs:Fault-v0", *SMALL, "--total-steps", "1M"]


def ctrl_c(program: Program) -> None:
    program.descendants()
    os.killpg(program.process.pid, signal.SIGINT)


def ended(program: Program) -> None:
    assert program.end(15) == 130, program.text
    assert "Traceback" not in program.text
    nothing_left(program)


@pytest.mark.parametrize(("who", "limit_s"), [("collector", 5), pytest.param("main", 5, marks=pytest.mark.slow)])
def test_while_an_env_is_made(start: Start, who: str, limit_s: float) -> None:
    program = start(*ENV, "--env-kwargs", "where=construct", "how=hang", f"who={who}")
    program.until(lambda: notes(program), "the hang")
    ctrl_c(program)

    ended(program)


@pytest.mark.slow
def test_in_the_prefill(start: Start) -> None:
    program = start(*ENV, "--learning-starts", "500k", "--env-kwargs", "where=step", "how=slow")
    program.until(lambda: "phase=prefill" in program.text, "the prefill")
    ctrl_c(program)

    ended(program)
    assert program.summary["status"] == "interrupted"
    assert "saved nothing yet" in program.text


@pytest.mark.slow
def test_in_the_final_evaluation(start: Start) -> None:
    few = ["-n", "200", "--learning-starts", "30"]
    program = start(*ENV, *few, "--env-kwargs", "where=step", "how=hang", "who=evaluator", "--eval-episodes", "40")
    program.until(lambda: notes(program), "the hang")
    ctrl_c(program)

    ended(program)
    assert program.summary["updates"] == 168
    assert len(checkpoints(program)) == 1


def test_while_it_saves_and_once_more(start: Start) -> None:
    program = start(*LONG, "--save-every", "10")
    program.until(lambda: checkpoints(program), "a checkpoint")
    ctrl_c(program)
    time.sleep(0.15)  # more than an echo, before the run has ended
    ctrl_c(program)

    ended(program)


@pytest.mark.slow
@pytest.mark.parametrize("tenths", range(0, 40, 2))
def test_at_any_moment_of_the_start(start: Start, tenths: int) -> None:
    program = start(*LONG)
    time.sleep(0.2 + tenths / 10)  # bash and the first lines of Python have no handler of ours
    ctrl_c(program)

    ended(program)

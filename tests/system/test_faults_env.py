"""An env that raises, exits, hangs or crashes, wherever: the cause is named and nothing is left."""

from __future__ import annotations

import pytest

from faults import last_error, notes, nothing_left, run_dir
from program import SMALL, Start

ENV = ["--env", "fault_envs:Fault-v0", *SMALL, "--learning-starts", "30", "--eval-episodes", "0"]
CAUSE = {"raise": "on purpose in {where}", "exit": "sys.exit(0) was called", "abort": "signal 6 (SIGABRT)"}
quick = [("construct", "raise"), ("reset", "exit"), ("construct", "abort")]


@pytest.mark.parametrize(
    ("where", "how"),
    [
        pytest.param(where, how, marks=[] if (where, how) in quick else pytest.mark.slow)
        for where in ("construct", "reset", "step")
        for how in CAUSE
    ],
)
def test_an_env_that_fails_in_the_collector_is_named(start: Start, where: str, how: str) -> None:
    program = start(*ENV, "--env-kwargs", f"where={where}", f"how={how}", "--total-steps", "1M")

    assert program.end() == 70, program.text
    assert CAUSE[how].format(where=where) in last_error(program)
    if how == "abort":
        assert "fault_envs.py" in program.text  # where it happened, in Python's words
    assert "completed" not in program.text
    assert program.summary["exit_code"] == 70
    nothing_left(program)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "phase"), [("construct", "make_envs"), pytest.param("reset", "reset", marks=pytest.mark.slow)]
)
def test_an_env_that_hangs_at_the_start_is_named_after_the_start_limit(start: Start, where: str, phase: str) -> None:
    limit_s = 8
    program = start(*ENV, "--env-kwargs", f"where={where}", "how=hang", "--start-limit", str(limit_s), "-n", "1M")
    program.until(lambda: notes(program), "the hang")

    assert program.end(limit_s + 10) == 70, program.text
    assert f"is stuck in {phase}: waited {limit_s} s for its envs (--start-limit)" in last_error(program)
    nothing_left(program)


def test_sys_exit_in_the_learners_process_is_no_success(start: Start) -> None:
    probed = start(*ENV, "--env-kwargs", "where=construct", "how=exit", "who=main", "-n", "300")
    serial = start(*ENV, "--env-kwargs", "where=step", "how=exit", "who=main", "-n", "800", "--serial")

    assert probed.end() == 2, probed.text
    assert "called sys.exit(0)" in probed.text.splitlines()[-1]
    assert serial.end() == 1, serial.text
    assert "sys.exit(0) was called" in last_error(serial)
    assert serial.summary["status"] == "failed"


def test_an_env_that_hangs_in_the_learners_process_is_named_too(start: Start) -> None:
    program = start(*ENV, "--env-kwargs", "where=construct", "how=hang", "who=main", "--start-limit", "3", "-n", "1M")

    assert program.end(20) == 2, program.text
    assert "fault_envs.py" in program.text
    assert "in at" in program.text
    assert program.text.splitlines()[-1].startswith(
        "error: it is stuck: making one fault_envs:Fault-v0 to look at took"
    )
    nothing_left(program)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raise", "exit", "hang", "abort"])
def test_an_env_that_fails_in_the_evaluation_leaves_what_was_learnt(start: Start, how: str) -> None:
    few = ["--eval-episodes", "3", "-n", "200", "--start-limit", "8", "--stall-limit", "8"]
    program = start(*ENV, "--env-kwargs", "where=construct", f"how={how}", "who=evaluator", *few)

    assert program.end() == 70, program.text
    assert "evaluator-0" in last_error(program)
    assert program.summary["env_steps"] == 200
    assert program.summary["updates"] == 168  # 32 of the 200 are random: whole rounds of 8 envs
    assert (run_dir(program) / "checkpoints/step_000000000200").is_dir()
    nothing_left(program)

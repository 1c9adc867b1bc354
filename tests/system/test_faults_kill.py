"""Killed and stopped processes: the run ends soon and by name, or goes on where that is right."""

from __future__ import annotations

import csv
import random
import signal
import time

import pytest

from faults import LONG, TOY, checkpoints, kill, last_error, nothing_left, run_dir
from program import Program, Start

SAVING = [*LONG, "--save-every", "50"]
MOMENTS = ("start", "prefill", "training", "saving")


def reach(program: Program, moment: str) -> None:
    """Wait until the collector exists and the run is at this moment."""
    program.until(program.collectors, "a collector")
    if moment == "prefill":
        program.until(lambda: "\nrun " in "\n" + program.text, "the header")
    elif moment == "training":
        program.until(lambda: "env_steps=100 of=100" in program.text, "the end of the prefill")
    elif moment == "saving":
        program.until(lambda: checkpoints(program), "a checkpoint")


def killed_collector_ends_the_run(start: Start, moment: str, later_s: float, goes_on: bool) -> None:
    program = start(*SAVING, "--env-kwargs", "step_ms=1")
    reach(program, moment)
    time.sleep(later_s)  # a random instant of that moment
    victim = program.collectors()[0]
    kill(victim)
    killed = time.monotonic()

    assert program.end(10) == 70, program.text
    assert time.monotonic() - killed < 10
    assert f"collector-0 (pid {victim}) was killed by signal 9 (SIGKILL)" in last_error(program)
    assert program.summary["exit_code"] == 70
    nothing_left(program)
    if goes_on and (saved := checkpoints(program)):
        steps = int(saved[-1].name.removeprefix("step_"))
        again = start("--resume", str(run_dir(program)), "--total-steps", str(steps + 200), "--utd", "1")
        assert again.end() == 0, again.text
        assert program.summary["env_steps"] == steps + 200
        assert program.summary["updates"] == steps + 200 - 100


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_collector_killed_at_any_moment_ends_the_run_within_10_s(start: Start, moment: str) -> None:
    killed_collector_ends_the_run(start, moment, 0.1, goes_on=moment == "saving")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_collector_killed_at_a_random_moment_leaves_a_run_that_goes_on(start: Start, number: int) -> None:
    later_s = random.Random(number).uniform(0.0, 1.5)
    killed_collector_ends_the_run(start, MOMENTS[number % len(MOMENTS)], later_s, goes_on=True)


def test_learner_and_collector_killed_together_leave_nothing_but_the_checkpoints(start: Start) -> None:
    program = start(*SAVING)
    reach(program, "saving")
    pids = [*program.collectors(), program.process.pid]
    for pid in pids:
        kill(pid)

    assert program.end(10) == -signal.SIGKILL
    nothing_left(program)


@pytest.mark.slow
def test_a_stopped_run_goes_on_and_a_stopped_collector_is_a_stall(start: Start) -> None:
    program = start(*LONG, "--stall-limit", "2", "--log-every", "100", "--env-kwargs", "step_ms=1")
    program.training()
    family = [program.process.pid, *program.collectors()]
    for pid in family:  # as a paused container
        kill(pid, signal.SIGSTOP)
    time.sleep(2.5)  # longer than the stall limit
    for pid in family:
        kill(pid, signal.SIGCONT)
    # The learner alone, which leaves the collector waiting for a grant.
    kill(program.process.pid, signal.SIGSTOP)
    time.sleep(2.5)
    kill(program.process.pid, signal.SIGCONT)
    before = rows(program)
    program.until(lambda: rows(program) > before, "more scalars")
    kill(program.collectors()[0], signal.SIGSTOP)

    assert program.end(2 + 10) == 70, program.text
    assert "no data from collector-0 (pid" in last_error(program)
    assert "for 2 s" in last_error(program)
    nothing_left(program)


def rows(program: Program) -> int:
    with open(run_dir(program) / "progress.csv") as file:
        return len(list(csv.DictReader(file)))


def whole_run_killed_goes_on_to_exact_counts(start: Start, later_s: float) -> None:
    words = [*TOY, "--total-steps", "6000", "--utd", "0.5", "--save-every", "50"]
    first = start(*words)
    first.until(lambda: checkpoints(first), "a checkpoint")
    time.sleep(later_s)
    first.descendants()
    kill(first.process.pid)
    first.process.wait()
    nothing_left(first)
    again = start("--resume", str(first.log_dir / "latest"), "--save-every", "2000")

    assert again.end() == 0, again.text
    summary = first.summary
    assert (summary["status"], summary["env_steps"], summary["updates"]) == ("completed", 6000, (6000 - 100) // 2)
    with open(run_dir(first) / "progress.csv") as file:
        steps = [int(row["env_steps"]) for row in csv.DictReader(file)]
    assert steps == sorted(set(steps))
    assert not list((run_dir(first) / "checkpoints").glob(".*"))


def test_a_run_killed_while_it_saves_goes_on_to_exact_counts(start: Start) -> None:
    whole_run_killed_goes_on_to_exact_counts(start, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_a_run_killed_at_a_random_moment_goes_on_to_exact_counts(start: Start, number: int) -> None:
    whole_run_killed_goes_on_to_exact_counts(start, random.Random(100 + number).uniform(0.0, 2.0))

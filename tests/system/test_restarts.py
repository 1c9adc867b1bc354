"""A collector that dies or hangs is replaced as often as was allowed; what was learnt and stored stays."""

from __future__ import annotations

import os
import signal

from program import SMALL, Start

RUN = ["--env", "unilab/Toy-v0", "--num-envs", "3", "--learning-starts", "90", "--eval-episodes", "0", *SMALL]


def test_a_killed_collector_is_replaced_and_the_run_does_all_its_steps(start: Start) -> None:
    program = start(*RUN, "--total-steps", "9000", "--env-kwargs", "step_ms=1", "--max-restarts", "2", "--utd", "0.1")
    for number in (1, 2):
        program.until(lambda: "env_steps=90 of=90" in program.text and program.collectors(), "updates")
        victim = program.collectors()[0]
        os.kill(victim, signal.SIGKILL)
        program.until(lambda n=number: f"collector restart {n} of 2" in program.text, f"restart {number}")
        program.until(lambda v=victim: program.collectors() and v not in program.collectors(), "a new collector")

    assert program.end() == 0, program.text
    assert "signal 9 (SIGKILL)" in program.text
    summary = program.summary
    assert (summary["status"], summary["restarts"]) == ("completed", 2)
    assert summary["env_steps"] == 9_000
    assert summary["updates"] == (9_000 - 90) // 10
    assert program.left_over() == []


def test_one_death_more_than_allowed_ends_the_run(start: Start) -> None:
    program = start("--env", "sample_envs:Raises-v0", "--max-restarts", "1", "--total-steps", "1M", *SMALL)

    assert program.end() == 70
    assert program.text.count("collector restart 1 of 1") == 1
    assert "the env raises on purpose" in program.text[program.text.rindex("error: ") :]
    assert program.summary["restarts"] == 1
    assert program.left_over() == []

"""However a run ends: the right exit code, the cause last on the console, a summary, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from program import SMALL, Program, Start
from unilab.checkpoint import list_checkpoints, load_checkpoint

LONG = ["--total-steps", "1e6", *SMALL]


def notes(program: Program) -> list[dict[str, object]]:
    file = program.log_dir / "notes.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def newest_checkpoint(program: Program) -> dict[str, object]:
    folder = Path(str(program.log_dir / "latest")).resolve() / "checkpoints"
    return load_checkpoint(list_checkpoints(folder)[-1])


def test_a_killed_collector_ends_the_run_and_is_named(start: Start) -> None:
    program = start("--env", "Pendulum-v1", *LONG)
    program.training()
    program.until(lambda: program.text.count("updates/s=") >= 1, "an update")
    killed = time.monotonic()
    os.kill(program.collectors()[0], signal.SIGKILL)

    assert program.end(10) == 70
    assert time.monotonic() - killed < 10
    assert "signal 9 (SIGKILL)" in program.text.splitlines()[-1]
    assert program.summary["status"] == "failed"
    assert program.summary["exit_code"] == 70
    assert newest_checkpoint(program)["updates"] > 0
    assert program.left_over() == []


@pytest.mark.parametrize("env", ["ForkedChild-v0", "HasHelper-v0"])
def test_a_killed_collector_takes_its_helpers_along(start: Start, env: str) -> None:
    program = start("--env", f"sample_envs:{env}", *LONG)
    program.training()
    program.until(lambda: notes(program), "the helper's start")
    os.kill(program.collectors()[0], signal.SIGKILL)

    assert program.end(10) == 70
    assert "signal 9" in program.text
    assert program.left_over() == []
    assert not _alive(int(notes(program)[0]["helper"]))


@pytest.mark.alone  # all of /dev/shm is compared
@pytest.mark.parametrize("victim", ["collector", "learner"])
def test_a_process_per_env_leaves_nothing_behind_either(start: Start, victim: str) -> None:
    before = set(os.listdir("/dev/shm"))
    program = start("--env", "Pendulum-v1", "--vec", "async", "--num-envs", "2", *LONG)
    program.training()
    alive = program.descendants()
    # The collector is the worker that the learner started itself; the others belong to its envs.
    collector = next(pid for pid in alive if "spawn_main" in alive[pid] and _parent(pid) == program.process.pid)
    os.kill(collector if victim == "collector" else program.process.pid, signal.SIGKILL)
    program.end(10)

    assert program.left_over() == []
    assert set(os.listdir("/dev/shm")) <= before


@pytest.mark.parametrize("session", ["false", "true"])
def test_nothing_survives_a_killed_learner(start: Start, session: str) -> None:
    program = start("--env", "sample_envs:HasHelper-v0", "--env-kwargs", f"own_session={session}", *LONG)
    program.training()
    program.until(lambda: notes(program), "the helper's start")
    program.descendants()
    os.kill(program.process.pid, signal.SIGKILL)
    program.process.wait()

    assert program.left_over(10) == []
    assert not _alive(int(notes(program)[0]["helper"]))


def test_an_exception_in_the_env_shows_its_traceback_and_index(start: Start) -> None:
    program = start("--env", "sample_envs:Raises-v0", "--num-envs", "2", *LONG)

    assert program.end() == 70
    # Once on top, then in the traceback: the source line and the message.
    assert program.text.count("the env raises on purpose") == 3
    assert "sample_envs.py" in program.text
    assert "env index 0" in program.text
    assert "the env raises on purpose" in str(program.summary["reason"])
    assert program.left_over() == []


@pytest.mark.parametrize(
    ("env", "said"),
    [("Exits-v0", "sys.exit(0)"), ("Dies-v0", "exit code 0"), ("Crashes-v0", "signal 6 (SIGABRT)")],
)
def test_a_collector_that_ends_in_any_other_way_fails_the_run(start: Start, env: str, said: str) -> None:
    program = start("--env", f"sample_envs:{env}", *LONG)

    assert program.end() == 70
    assert said in program.text[program.text.rindex("error: ") :]
    assert "completed" not in program.text
    assert program.left_over() == []


def test_a_hanging_env_is_named_and_killed(start: Start) -> None:
    program = start("--env", "sample_envs:Hangs-v0", "--stall-limit-s", "3", *LONG)
    program.until(lambda: notes(program), "the hang")
    hung = time.monotonic()

    assert program.end(20) == 70
    assert time.monotonic() - hung < 3 + 10
    assert "no data from collector-0 (pid" in program.text
    assert program.left_over() == []


def test_an_interrupted_run_waits_for_its_chunk_as_long_as_it_is_told(start: Start) -> None:
    program = start("--env", "sample_envs:Hangs-v0", "--learning-starts", "8", "--shutdown-timeout", "9", *LONG)
    program.until(lambda: notes(program), "the hang")
    program.process.terminate()
    told = time.monotonic()

    assert program.end(30) == 143, program.text
    assert time.monotonic() - told >= 9
    assert program.left_over() == []


@pytest.mark.parametrize(("where", "value"), [("obs", "nan"), ("reward", "-inf")])
def test_a_value_that_is_not_finite_ends_the_run_by_name(start: Start, where: str, value: str) -> None:
    program = start("--env", "sample_envs:BadValue-v0", "--env-kwargs", f"where={where}", f"value='{value}'", *LONG)

    assert program.end() == 70
    last = program.text.splitlines()[-1]
    assert where in last
    assert value.lstrip("-") in last
    assert "env index 0, step 60" in last
    assert "Traceback" not in program.text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_saves_and_ends_without_a_traceback(start: Start, number: signal.Signals, code: int) -> None:
    program = start("--env", "Pendulum-v1", "--trace", *LONG)
    program.training()
    if number == signal.SIGINT:
        os.killpg(program.process.pid, number)  # as the terminal does
    else:
        os.kill(program.process.pid, number)

    assert program.end(15) == code
    assert "Traceback" not in program.text
    assert program.summary["status"] == "interrupted"
    assert program.summary["exit_code"] == code
    assert newest_checkpoint(program)["env_steps"] == program.summary["env_steps"]
    assert json.loads(Path(str(program.summary["trace"])).read_text())
    assert program.left_over() == []


def test_an_interrupt_of_a_hanging_env_still_ends_the_run(start: Start) -> None:
    program = start("--env", "sample_envs:Hangs-v0", *LONG)
    program.until(lambda: notes(program), "the hang")
    os.kill(program.process.pid, signal.SIGINT)

    assert program.end(15) == 130
    assert program.left_over() == []


def test_a_second_interrupt_ends_at_once(start: Start) -> None:
    # One interrupt alone would wait five seconds for the chunk that the collector hangs in.
    program = start("--env", "sample_envs:Hangs-v0", "--num-envs", "1", "--learning-starts", "20", *LONG)
    program.until(lambda: notes(program), "the hang")
    os.kill(program.process.pid, signal.SIGINT)
    time.sleep(0.3)  # what a person does
    again = time.monotonic()
    os.kill(program.process.pid, signal.SIGINT)

    assert program.end(5) == 130
    assert time.monotonic() - again < 2
    assert not (program.log_dir / "latest/summary.json").exists()
    assert program.left_over() == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, 0.3), (signal.SIGTERM, 1.2), (signal.SIGINT, 2.0), (signal.SIGTERM, 2.8), (signal.SIGINT, 3.5)],
)
def test_an_interrupt_during_the_start_ends_without_a_traceback(
    start: Start, number: signal.Signals, moment: float
) -> None:
    program = start("--env", "Pendulum-v1", *LONG)
    time.sleep(moment)  # imports, probe, spawn, construction: some moment of each
    program.descendants()
    os.killpg(program.process.pid, number)

    assert program.end(15) == 128 + number, program.text
    assert "Traceback" not in program.text
    assert program.left_over() == []


@pytest.mark.parametrize("mode", ["--serial", "--no-serial"])
def test_an_env_that_cannot_be_closed_is_a_warning(start: Start, mode: str) -> None:
    program = start("--env", "sample_envs:CannotClose-v0", mode, "--eval-episodes", "0", *SMALL, "-n", "300")

    assert program.end() == 0, program.text
    assert "cannot be closed" in program.text
    assert program.summary["status"] == "completed"
    assert program.summary["exit_code"] == 0


def test_an_env_that_never_ends_an_episode_is_still_evaluated(start: Start) -> None:
    few = ["--eval-max-steps", "50", "--num-envs", "2", *SMALL, "-n", "300"]
    program = start("--env", "sample_envs:Endless-v0", *few)

    assert program.end() == 0, program.text
    assert program.summary["final_eval_mean"] == 50  # reward 1 a step
    assert "10 evaluation episodes did not end within 50 steps" in program.text


def test_an_evaluator_that_hangs_is_named(start: Start) -> None:
    # Each env hangs in its 60th step: not in the training of 50, but in the evaluation.
    program = start(
        "--env",
        "sample_envs:Hangs-v0",
        "--num-envs",
        "1",
        "--stall-limit-s",
        "3",
        *SMALL,
        "-n",
        "50",
        "--eval-episodes",
        "40",
    )

    assert program.end(60) == 70, program.text
    assert "no data from evaluator-0" in program.text
    assert program.summary["status"] == "failed"
    assert program.summary["updates"] == 45
    assert newest_checkpoint(program)["updates"] == 45
    assert program.left_over() == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

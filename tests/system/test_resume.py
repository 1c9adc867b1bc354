"""A run that goes on ends where one that was never stopped ends, bit for bit; what cannot go on is refused."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from program import SMALL, Program
from test_lockstep import config, digests
from unilab.algos.learner import Learner
from unilab.cli import parse_run
from unilab.collectors import SerialCollectors
from unilab.config import TrainConfig
from unilab.errors import ConfigError, Stopped
from unilab.resume import open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train

Start = Callable[..., Program]


def run_of(summary: RunSummary) -> Path:
    return Path(str(summary.checkpoint)).parent.parent


def go_on(where: Path, **changes: Any) -> RunSummary:
    """As ``--resume`` does."""
    resume = open_resume(str(where), where)
    return train(dataclasses.replace(saved_config(resume), **changes), resume)


def scalars(run: Path) -> list[dict[str, str]]:
    """Rows of progress.csv without what depends on the clock and the machine's memory."""
    with open(run / "progress.csv") as file:
        return [
            {name: value for name, value in row.items() if not name.startswith(("time/fps", "perf/", "sys/"))}
            for row in csv.DictReader(file)
        ]


# Serial mode computes the same bits and starts no processes: most cases are about what is computed.
CASES: dict[str, dict[str, Any]] = {
    "sac, two processes": {"serial": False},
    "sac": {},
    "td3": {"algo": "td3"},
    "crossq": {"algo": "crossq"},
    "fasttd3": {"algo": "fasttd3"},
    "fastsac": {"algo": "fastsac"},
    "flashsac": {"algo": "flashsac"},
    "utd 0.37, two steps a tick": {"utd": 0.37, "steps_per_tick": 2},
    "utd 2, one env": {"utd": 2.0, "num_envs": 1},
    "episodes of different lengths": {"env_kwargs": {"length_step": 3, "ends": "mixed"}},
    "native": {"env": "InvertedPendulum-v5"},
    "td3, native, two processes": {"env": "Hopper-v5", "algo": "td3", "serial": False},
}


LONG, LONGER = pytest.mark.slow, {"sac, two processes", "td3, native, two processes", "utd 2, one env"}


def small(log_dir: Path, total_steps: int, changes: dict[str, Any], **more: Any) -> TrainConfig:
    # 600 is no multiple of it: what is written out of turn at the end must not stay.
    return config(log_dir, total_steps=total_steps, log_every=140, **{"serial": True, **changes}, **more)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if name in LONGER else ()) for name in CASES])
def test_a_run_that_was_done_and_goes_on_equals_one_that_never_stopped(tmp_path: Path, name: str) -> None:
    whole = train(small(tmp_path / "whole", 1_200, CASES[name]))
    half = train(small(tmp_path / "half", 600, CASES[name]))
    both = go_on(run_of(half), total_steps=1_200)

    assert digests(both) == digests(whole)
    assert digests(both) != digests(half)
    assert both.ticks == whole.ticks
    assert both.best_return == whole.best_return
    assert scalars(run_of(both)) == scalars(run_of(whole))


@pytest.mark.parametrize("name", ["sac, two processes", "utd 0.37, two steps a tick", "native"])
def test_a_checkpoint_in_the_middle_goes_on_to_the_same_end(tmp_path: Path, name: str) -> None:
    whole = train(small(tmp_path, 900, CASES[name], save_every=200, keep=0))
    checkpoints = sorted((run_of(whole) / "checkpoints").glob("step_*"))
    rows = scalars(run_of(whole))
    assert len(checkpoints) >= 4

    for checkpoint in (checkpoints[2], checkpoints[0]):
        again = go_on(checkpoint)
        assert digests(again) == digests(whole)
        assert scalars(run_of(again)) == rows


@pytest.mark.parametrize("algo", ["td3", "fasttd3"])
def test_noise_that_falls_is_the_same_in_one_process_in_two_and_after_a_stop(tmp_path: Path, algo: str) -> None:
    falls = {algo: dataclasses.replace(getattr(TrainConfig(), algo), noise_schedule="cosine", noise_final=0.1)}
    case = small(tmp_path, 600, {"algo": algo, "serial": False}, save_every=200, keep=0)
    serial = train(dataclasses.replace(case, **falls, serial=True))
    whole = train(dataclasses.replace(case, **falls))
    again = go_on(min((run_of(whole) / "checkpoints").glob("step_*")))

    assert digests(serial) == digests(whole) == digests(again)
    assert digests(train(dataclasses.replace(case, serial=True))) != digests(serial)


def test_a_run_may_go_on_in_the_other_mode(tmp_path: Path) -> None:
    whole = train(small(tmp_path / "whole", 900, {}))
    half = train(small(tmp_path / "half", 600, {}))

    assert digests(go_on(run_of(half), total_steps=900, serial=False)) == digests(whole)


def test_what_was_saved_behind_the_checkpoint_is_set_aside(tmp_path: Path) -> None:
    whole = train(small(tmp_path, 900, {}, save_every=200, keep=0))
    folder = run_of(whole) / "checkpoints"
    first = min(folder.glob("step_*"))
    go_on(first, total_steps=390)

    assert max(folder.glob("step_*")).name < Path(str(whole.checkpoint)).name
    assert (folder / f"abandoned_1_{Path(str(whole.checkpoint)).name}").is_dir()


def test_the_wall_time_goes_on_and_the_origin_of_every_start_is_kept(tmp_path: Path) -> None:
    half = train(small(tmp_path, 600, {}))
    both = go_on(run_of(half), total_steps=900)

    assert both.wall_time_s > half.wall_time_s
    assert len(json.loads((run_of(both) / "meta.json").read_text())["earlier"]) == 1


def test_a_tick_that_failed_in_the_middle_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, calls = Learner.update, []

    def fails(self: Learner, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 500:  # the second of three updates of a tick
            raise RuntimeError("the update fails")
        return update(self, batch)

    whole = train(small(tmp_path / "whole", 900, {}))
    monkeypatch.setattr(Learner, "update", fails)
    with pytest.raises(RuntimeError, match="the update fails"):
        train(small(tmp_path / "broken", 900, {}, save_every=200))
    monkeypatch.undo()
    run = next((tmp_path / "broken").glob("*/*/*_s3"))
    resume = open_resume(str(run), run)

    assert resume.state["tick"] == (402 - 90) // 3
    assert digests(go_on(run)) == digests(whole)


def test_an_interrupt_in_the_middle_of_a_serial_chunk_forgets_the_envs_but_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_chunk, chunks = SerialCollectors._round_done, []

    def stop(self: SerialCollectors) -> None:
        chunks.append(1)
        if len(chunks) == 200:
            os.kill(os.getpid(), signal.SIGTERM)
            raise Stopped("interrupted in the middle of a chunk")
        run_chunk(self)

    monkeypatch.setattr(SerialCollectors, "_round_done", stop)
    stopped = train(small(tmp_path, 900, {"serial": True, "steps_per_tick": 2}))
    monkeypatch.undo()

    assert stopped.status == "interrupted"
    resume = open_resume(str(run_of(stopped)), tmp_path)
    assert resume.state["collectors"] == [None]
    both = go_on(run_of(stopped))
    assert (both.env_steps, both.updates) == (900, 810)


def test_a_run_that_another_process_went_on_with_meanwhile_is_refused(tmp_path: Path) -> None:
    half = train(small(tmp_path, 600, {}))
    early = open_resume(str(run_of(half)), tmp_path)
    go_on(run_of(half), total_steps=750)

    with pytest.raises(ConfigError, match="has changed meanwhile"):
        train(dataclasses.replace(saved_config(early), total_steps=900), early)


# ------------------------------------------------------------ envs without a state


def test_plain_envs_start_new_episodes_with_seeds_of_their_own_and_say_so(start: Start) -> None:
    words = ("--env", "Pendulum-v1", "--num-envs", "3", *SMALL, "--learning-starts", "90", "--eval-episodes", "0")
    first = start(*words, "--total-steps", "600")
    assert first.end() == 0, first.text
    again = start("--resume", str(first.log_dir / "latest"), "--total-steps", "1200")

    assert again.end() == 0, again.text
    assert "they start new episodes" in again.text
    assert "phase=prefill" not in again.text
    summary = first.summary
    assert summary["env_steps"] == 1_200
    assert summary["updates"] == 1_200 - 90
    steps = [int(row["env_steps"]) for row in scalars(first.log_dir / "latest")]
    assert steps == sorted(set(steps))


# ------------------------------------------------------------ refusals


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """Directory of a run that is over."""
    log_dir = ["--log-dir", str(tmp_path), "--env", "unilab/Toy-v0", "--serial", "--eval-episodes", "0"]
    train(parse_run([*log_dir, *SMALL, "--learning-starts", "90", "--total-steps", "300"])[0])
    return (tmp_path / "latest").resolve()


def test_other_values_are_refused_by_name_before_anything_starts(start: Start, done: Path) -> None:
    program = start("--resume", str(done), "--total-steps", "600", "--gamma", "0.9")

    assert program.end() == 2, program.text
    assert "learner.gamma=0.9 (was 0.99)" in program.text
    assert "--resume-allow learner.gamma" in program.text
    assert "Traceback" not in program.text
    assert len(list(done.glob("events.*"))) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--num-envs 2", "env.num_envs=2 .was 8."),
        ("--algo td3", "algo=td3 .was sac."),
        ("--num-envs 2 --resume-allow num-envs", "num_envs cannot differ"),
        ("--gamma 0.9 --tau 0.5 --resume-allow tau", "learner.gamma=0.9"),
        ("--resume-allow gama", "unknown key 'gama'.*gamma"),
        ("--preset sb3", "--preset has no place beside --resume"),
    ],
)
def test_what_must_not_differ_is_said(done: Path, words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_run(["--resume", str(done), "--total-steps", "600", *words.split()])


def test_several_keys_may_be_allowed_at_once_or_one_by_one(done: Path) -> None:
    changed = ["--resume", str(done), "--total-steps", "600", "--gamma", "0.9", "--tau", "0.5"]
    for words in ("--resume-allow gamma tau", "--resume-allow gamma --resume-allow tau"):
        cfg, resume = parse_run([*changed, *words.split()])
        assert (cfg.learner.gamma, cfg.learner.tau) == (0.9, 0.5)
        assert resume is not None


def test_a_value_that_is_allowed_to_differ_does(start: Start, done: Path) -> None:
    program = start("--resume", str(done), "--total-steps", "600", "--gamma", "0.9", "--resume-allow", "gamma")

    assert program.end() == 0, program.text
    assert "gamma: 0.9" in (done / "config.yaml").read_text()


def test_a_run_that_has_done_all_its_steps_says_what_to_raise(start: Start, done: Path) -> None:
    program = start("--resume", str(done))

    assert program.end() == 2, program.text
    assert "raise --total-steps" in program.text


@pytest.mark.slow
def test_a_run_is_not_started_twice_at_once(start: Start) -> None:
    first = start("--env", "unilab/Toy-v0", *SMALL, "--total-steps", "1M", "--save-every", "500")
    first.until(lambda: list((first.log_dir / "latest/checkpoints").glob("step_*")), "a checkpoint")
    second = start("--resume", str(first.log_dir / "latest"))

    assert second.end() == 2, second.text
    assert "is in use: another process runs it" in second.text
    first.process.terminate()
    assert first.end() == 143, first.text
    assert first.summary["status"] == "interrupted"


def test_nothing_to_go_on_from_is_one_plain_line(start: Start) -> None:
    for where in ("latest", "/no/such/run"):
        program = start("--resume", where)
        assert program.end() == 2, program.text
        assert "does not exist" in program.text
        assert "Traceback" not in program.text

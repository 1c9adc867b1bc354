"""Evaluations on the way: exact points, exact weights, the best of them, and the end that one of them brings."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from program import SMALL, Start
from unilab.algos.base import LearnerConfig
from unilab.checkpoint import list_checkpoints, load_checkpoint, read_meta, steps_of
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.errors import ConfigError, WorkerDied
from unilab.replay import ReplayConfig
from unilab.resume import open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train


def config(log_dir: Path, evaluation: EvaluationConfig, **changes: Any) -> TrainConfig:
    cfg = TrainConfig(
        total_steps=700,
        threads=2,
        log_dir=log_dir,
        serial=True,
        env=EnvConfig(env="Pendulum-v1", num_envs=3),
        learner=LearnerConfig(hidden=(8, 8), norm_obs=True),
        replay=ReplayConfig(batch_size=8, buffer_size=1_000, learning_starts=60),
        evaluation=evaluation,
    )
    return dataclasses.replace(cfg, **changes)


OFTEN = EvaluationConfig(eval_every=200, eval_episodes=2, eval_max_steps=40)


def folder(summary: RunSummary) -> Path:
    return Path(str(summary.checkpoint)).parents[1]


def evaluations(run_dir: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run_dir / "eval.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "wall_time_s"} for line in lines]


def board(run_dir: Path) -> dict[int, float]:
    """Mean returns by env step, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run_dir))
    events.Reload()
    return {event.step: event.value for event in events.Scalars("eval/mean_reward")}


def best(run_dir: Path) -> Path:
    (path,) = list_checkpoints(run_dir / "best")
    return path


def test_the_points_are_exact_and_both_modes_agree(tmp_path: Path) -> None:
    serial = train(config(tmp_path, dataclasses.replace(OFTEN, eval_at_start=True)))
    spawned = train(config(tmp_path, dataclasses.replace(OFTEN, eval_at_start=True), serial=False))
    seen = evaluations(folder(serial))

    # Whole rounds of 3 envs: the first crossing of each multiple of 200, and the final weights.
    assert [line["env_steps"] for line in seen] == [60, 201, 402, 600, 702 - 702 % 3]
    assert [line["version"] for line in seen] == [0, 47, 114, 180, 214]
    assert len({line["mean_reward"] for line in seen}) == 5
    assert evaluations(folder(spawned)) == seen
    assert (spawned.learner_digest, spawned.best_eval_mean) == (serial.learner_digest, serial.best_eval_mean)
    assert serial.final_eval_mean == seen[-1]["mean_reward"]
    assert serial.best_eval_mean == max(line["mean_reward"] for line in seen)


def test_evaluations_change_nothing_that_is_learnt(tmp_path: Path) -> None:
    with_them = train(config(tmp_path, OFTEN))
    without = train(config(tmp_path, EvaluationConfig(eval_episodes=0)))

    assert with_them.learner_digest == without.learner_digest
    assert with_them.replay_digest == without.replay_digest
    assert (without.final_eval_mean, without.best_eval_mean) == (None, None)
    assert not (folder(without) / "best").exists()


def test_best_holds_the_weights_that_were_evaluated(tmp_path: Path) -> None:
    summary = train(config(tmp_path, OFTEN, serial=False))
    line = max(evaluations(folder(summary)), key=lambda line: line["mean_reward"])
    kept = best(folder(summary))
    alone = train(config(tmp_path / "alone", EvaluationConfig(eval_episodes=0), total_steps=line["env_steps"]))

    assert read_meta(kept)["mean_reward"] == summary.best_eval_mean
    states = sorted(folder(summary).rglob("state.pt"), key=lambda path: path.stat().st_mtime)
    assert states[-1].parent == Path(str(summary.checkpoint))  # who takes the newest file can go on from it
    assert (read_meta(kept)["env_steps"], read_meta(kept)["tick"]) == (line["env_steps"], line["version"])
    ours, theirs = load_checkpoint(kept)["policy"], load_checkpoint(Path(str(alone.checkpoint)))["policy"]
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_return_that_is_reached_ends_the_run_there_in_both_modes(tmp_path: Path) -> None:
    seen = evaluations(folder(train(config(tmp_path, OFTEN))))
    returns = [line["mean_reward"] for line in seen]
    first_best = next(i for i, mean in enumerate(returns) if mean == max(returns[:2]))
    wanted = dataclasses.replace(OFTEN, stop_at_return=returns[first_best])
    for serial in (True, False):
        summary = train(config(tmp_path, wanted, serial=serial))

        assert (summary.status, summary.exit_code) == ("completed", 0)
        assert "reached stop_at_return" in summary.reason
        assert evaluations(folder(summary)) == seen[: first_best + 1]
        assert summary.ticks == seen[first_best]["version"]
        assert summary.final_eval_mean == returns[first_best]


def test_a_run_that_goes_on_has_the_evaluations_of_one_that_never_stopped(tmp_path: Path) -> None:
    toy = EnvConfig(env="unilab/Toy-v0", num_envs=3)
    whole = train(config(tmp_path, OFTEN, env=toy))
    half = train(config(tmp_path, OFTEN, env=toy, total_steps=402, name="half"))
    resume = open_resume(str(folder(half)), tmp_path)
    rest = train(dataclasses.replace(saved_config(resume), total_steps=700), resume)

    assert rest.learner_digest == whole.learner_digest
    assert evaluations(folder(rest)) == evaluations(folder(whole))
    assert rest.best_eval_mean == whole.best_eval_mean
    assert best(folder(rest)).name == best(folder(whole)).name
    assert board(folder(rest)) == board(folder(whole))


def test_going_back_sets_the_best_of_the_abandoned_attempt_aside(tmp_path: Path) -> None:
    first = train(config(tmp_path, OFTEN, save_every=90, keep=0))
    run_dir = folder(first)
    kept = best(run_dir)
    before = [path for path in list_checkpoints(run_dir / "checkpoints") if path.name < kept.name]
    resume = open_resume(str(before[-1]), tmp_path)
    again = train(saved_config(resume), resume)

    assert (run_dir / "best" / f"abandoned_{kept.name}").is_dir()
    after = [line["mean_reward"] for line in evaluations(run_dir) if line["env_steps"] > steps_of(before[-1])]
    assert again.best_eval_mean == max(after)
    assert read_meta(best(run_dir))["mean_reward"] == max(after)


def test_a_killed_evaluator_ends_the_run_and_is_named(start: Start) -> None:
    program = start(
        *("--env", "fault_envs:Fault-v0", *SMALL, "--num-envs", "2", "--learning-starts", "20", "-n", "1M"),
        *("--eval-every", "20", "--eval-episodes", "400", "--log-every", "100"),
    )
    program.until(lambda: len(program.collectors()) > 1, "an evaluator")
    evaluator = max(program.collectors())
    time.sleep(1.0)  # into its imports or its first steps
    os.kill(evaluator, signal.SIGKILL)
    killed = time.monotonic()

    assert program.end(20) == 70, program.text
    assert time.monotonic() - killed < 10
    assert "evaluator-0" in program.text.splitlines()[-1]
    assert "signal 9" in program.text
    assert program.left_over() == []


@pytest.mark.parametrize("words", [{"eval_at_start": True}, {"stop_at_return": 0.0}])
def test_options_of_evaluations_that_do_not_happen_are_refused(tmp_path: Path, words: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="would have no effect with eval_episodes=0"):
        train(config(tmp_path, EvaluationConfig(eval_episodes=0, **words)))


def test_an_evaluator_that_fails_is_told_with_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    env = EnvConfig(
        env="fault_envs:Fault-v0", env_kwargs={"where": "reset", "how": "raise", "who": "evaluator"}, num_envs=3
    )

    with pytest.raises(WorkerDied, match=r"evaluator-0(.|\n)*on purpose in reset"):
        train(config(tmp_path, dataclasses.replace(OFTEN, eval_max_steps=100), env=env, serial=False))

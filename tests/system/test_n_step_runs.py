"""n-step returns through the whole machine: exact counts, rows that are what the env did, and runs that go on."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import test_lockstep
from program import SMALL, Start
from test_lockstep import digests
from test_resume import go_on, run_of, scalars
from test_skipping import config as skipping
from test_skipping import outcome, stored_rows
from unilab.algos.registry import ALGORITHMS
from unilab.config import TrainConfig
from unilab.envs.registry import make_env
from unilab.envs.toy import ToyEnv
from unilab.errors import ConfigError, NonFinite
from unilab.hooks import Hooks
from unilab.replay import ReplayConfig, RowLayout
from unilab.resume import open_resume, saved_config
from unilab.train import train

GAMMA = 0.99
MIXED: dict[str, Any] = {"length_step": 3, "ends": "mixed"}


def config(log_dir: Path, n_step: int = 3, **changes: Any) -> TrainConfig:
    cfg = test_lockstep.config(log_dir, **{"serial": True, "env_kwargs": MIXED, **changes})
    return dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, n_step=n_step))


def windows(cfg: TrainConfig, rows: int) -> np.ndarray[Any, Any]:
    """[rows, width] without actions, by brute force over what the toy env does by itself."""
    n_step, n = cfg.learner.n_step, cfg.env.num_envs
    env = make_env(cfg.env, seed=0)
    obs, steps = env.reset()["obs"], []
    for _ in range(rows // n + n_step - 1):
        step = env.step(np.zeros((n, 1), np.float32))
        steps.append((obs, step))
        obs = step.obs["obs"]
    found = []
    for number in range(rows):
        t, i = divmod(number, n)
        total, m = 0.0, 0
        while m < n_step:
            step = steps[t + m][1]
            total += GAMMA**m * float(step.reward[i])
            m += 1
            if step.terminated[i] or step.truncated[i]:
                break
        found.append([*steps[t][0][i], np.float32(total), *step.next_obs["obs"][i]])
        found[-1] += [step.terminated[i], step.truncated[i], m]
    return np.array(found, np.float32)


@pytest.mark.parametrize("n_step", [2, 3, 5])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_stored_rows_are_the_windows_of_what_the_env_did(tmp_path: Path, n_step: int, num_envs: int) -> None:
    cfg = config(tmp_path, n_step, num_envs=num_envs, total_steps=600, steps_per_tick=2)
    summary = train(cfg)
    layout = RowLayout(obs_dim=3, action_dim=1, n_step=n_step)
    rows = stored_rows(Path(str(summary.checkpoint)), layout)
    stop = summary.env_steps

    assert (rows[:, layout.columns["action"]] != 0).any()
    assert np.array_equal(np.delete(rows, 3, axis=1), windows(cfg, stop)[stop - len(rows) :])


@pytest.mark.parametrize("utd", [1.0, 0.37, 2.0])
@pytest.mark.parametrize("steps_per_tick", [1, 2])
def test_env_steps_and_updates_are_counted_as_without(tmp_path: Path, utd: float, steps_per_tick: int) -> None:
    changes = {"utd": utd, "steps_per_tick": steps_per_tick, "total_steps": 400}
    three, one = train(config(tmp_path, 3, **changes)), train(config(tmp_path, 1, **changes))

    assert (three.env_steps, three.updates, three.ticks) == (one.env_steps, one.updates, one.ticks)
    assert three.updates == int(round(utd * 100) * (three.env_steps - 90) // 100)


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_the_rounds_on_the_way_are_simulated_besides(
    tmp_path: Path, n_step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, rounds = ToyEnv.step, []

    def step(self: ToyEnv, action: Any) -> Any:
        rounds.append(1)
        return real(self, action)

    monkeypatch.setattr(ToyEnv, "step", step)
    summary = train(config(tmp_path, n_step, total_steps=93))

    assert (summary.env_steps, summary.updates) == (93, 3)
    assert sum(rounds) == 93 // 3 + n_step - 1


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_two_processes_give_the_bits_of_serial_mode(tmp_path: Path, algo: str) -> None:
    changes = {"algo": algo, "total_steps": 900, "steps_per_tick": 2}

    assert digests(train(config(tmp_path, serial=False, **changes))) == digests(train(config(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("n_step", "changes"),
    [
        (3, {}),
        (3, {"algo": "td3", "utd": 0.37, "steps_per_tick": 2}),
        (5, {"num_envs": 1, "utd": 2.0}),
        (3, {"env": "Hopper-v5", "env_kwargs": {}}),
    ],
)
def test_a_run_that_goes_on_equals_one_that_never_stopped(tmp_path: Path, n_step: int, changes: dict[str, Any]) -> None:
    whole = train(config(tmp_path / "whole", n_step, total_steps=900, log_every=140, **changes))
    half = train(config(tmp_path / "half", n_step, total_steps=500, log_every=140, **changes))
    both = go_on(run_of(half), total_steps=900)

    assert digests(both) == digests(whole)
    assert digests(both) != digests(half)
    assert scalars(run_of(both)) == scalars(run_of(whole))


def test_checkpoints_on_the_way_of_two_processes_go_on_to_the_same_end(tmp_path: Path) -> None:
    whole = train(config(tmp_path, serial=False, total_steps=900, save_every=200, keep=0))
    checkpoints = sorted((run_of(whole) / "checkpoints").glob("step_*"))

    for checkpoint in checkpoints[:2]:
        assert digests(go_on(checkpoint, serial=True)) == digests(whole)


@pytest.mark.parametrize("bad_at", [2, 57])
def test_a_bad_step_is_in_no_row_and_counts_as_skipped(tmp_path: Path, bad_at: int) -> None:
    def steps(cfg: TrainConfig) -> TrainConfig:
        return dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, n_step=3))

    serial = train(steps(skipping(tmp_path, bad_at)))
    lockstep = train(steps(skipping(tmp_path, bad_at, serial=False)))
    rows = stored_rows(Path(str(serial.checkpoint)), RowLayout(obs_dim=3, action_dim=1, n_step=3))

    assert outcome(serial) == outcome(lockstep)
    assert (serial.env_steps, serial.updates, serial.skipped_steps) == (300, 240, 1)
    assert np.isfinite(rows).all()
    # Of env 0: both windows that reached the bad step are shorter, and the one that began there is the one before it.
    own = rows[::3]
    tick = own[:, 1]
    assert np.array_equal(own[:, 5 + 1] - tick, own[:, -1])
    assert own[bad_at - 1].tolist() == own[bad_at - 2].tolist()
    assert own[bad_at - 2, -1] == 1


@pytest.mark.parametrize("bad_at", range(64, 72))
def test_a_run_that_skips_within_a_window_can_be_continued_exactly(tmp_path: Path, bad_at: int) -> None:
    def steps(cfg: TrainConfig) -> TrainConfig:
        return dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, n_step=4))

    whole = train(steps(skipping(tmp_path, bad_at)))
    half = train(steps(skipping(tmp_path, bad_at, total_steps=200, name="half")))  # 70 rounds
    resume = open_resume(str(run_of(half)), tmp_path)
    rest = train(dataclasses.replace(saved_config(resume), total_steps=300), resume)

    assert outcome(rest) == outcome(whole)


def test_the_very_first_step_cannot_be_skipped_here_either(tmp_path: Path) -> None:
    cfg = skipping(tmp_path, 1)
    with pytest.raises(NonFinite, match="no transition is there yet"):
        train(dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, n_step=3)))


def test_a_killed_collector_is_replaced_and_the_run_has_all_its_rows(start: Start) -> None:
    words = ["--env", "unilab/Toy-v0", "--num-envs", "3", "--learning-starts", "90", "--eval-episodes", "0", *SMALL]
    words += ["--env-kwargs", "step_ms=1", "--utd", "0.1", "--n-step", "3"]
    program = start(*words, "--total-steps", "3000", "--max-restarts", "1")
    program.until(lambda: "env_steps=90 of=90" in program.text and program.collectors(), "updates")
    os.kill(program.collectors()[0], signal.SIGKILL)

    assert program.end() == 0, program.text
    summary = program.summary
    assert (summary["restarts"], summary["env_steps"], summary["updates"]) == (1, 3_000, 291)
    rows = stored_rows(Path(str(summary["checkpoint"])), RowLayout(obs_dim=3, action_dim=1, n_step=3))
    assert len(rows) == 3_000
    # No window reaches from the old collector's episodes into those of the new one.
    assert np.array_equal(rows[:, 6] - rows[:, 1], rows[:, -1])
    assert set(rows[:, -1]) == {1, 2, 3}


def test_plain_envs_that_start_anew_close_their_windows_and_lose_no_row(tmp_path: Path) -> None:
    half = train(config(tmp_path, env="Pendulum-v1", env_kwargs={}, total_steps=300))
    both = go_on(run_of(half), total_steps=600)
    layout = RowLayout(obs_dim=3, action_dim=1, n_step=3)
    rows = stored_rows(Path(str(both.checkpoint)), layout)
    rows = rows[len(rows) % 3 :]  # whole rounds
    first = (600 - len(rows)) // 3

    assert both.env_steps == 600
    # Rounds 100 and 101 were under way at the end of the first run: windows of 2 steps and of 1, which bootstrap.
    steps = rows[:, layout.columns["steps"].start].reshape(-1, 3)[99 - first : 103 - first]
    assert steps.tolist() == [[3, 3, 3], [2, 2, 2], [1, 1, 1], [3, 3, 3]]
    assert not rows[:, layout.columns["terminated"].start].any()


def test_rows_of_another_sum_are_refused(tmp_path: Path) -> None:
    def run(n_step: int, gamma: float = GAMMA, **changes: Any) -> Any:
        cfg = config(tmp_path, n_step, total_steps=200, **changes)
        cfg = dataclasses.replace(cfg, replay=ReplayConfig(batch_size=8, buffer_size=1_000, learning_starts=90))
        return train(dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, gamma=gamma)))

    teacher = run_of(run(3))
    assert run(3, replay_from=teacher).env_steps == 201
    for n_step, gamma in ((1, GAMMA), (2, GAMMA), (3, 0.9)):
        with pytest.raises(ConfigError, match=r"rows of n_step=3 and gamma=0\.99, this run's have"):
            run(n_step, gamma, replay_from=teacher)


@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("n_step", [1, 5, 40])
def test_the_prefill_s_reward_per_step_is_over_the_steps_that_brought_it(
    tmp_path: Path, n_step: int, serial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One for each step: rows are late, their rewards are counted at once.
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    said = io.StringIO()
    cfg = config(tmp_path, n_step, serial=serial, env="sample_envs:Plain-v0", total_steps=200, env_kwargs={})
    train(cfg, hooks=Hooks(stream=said))

    assert re.search(r"^phase=prefill env_steps=90 of=90 reward_per_step=1( |$)", said.getvalue(), re.MULTILINE), said

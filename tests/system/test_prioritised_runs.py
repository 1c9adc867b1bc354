"""Runs that draw by priority: the same bits wherever they are computed, and rows that are whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from test_lockstep import digests
from test_many_collectors import small
from test_resume import go_on, run_of, scalars
from unilab.algos.registry import ALGORITHMS
from unilab.config import TrainConfig
from unilab.resume import check_changes, open_resume, saved_config
from unilab.runtime import Runtime
from unilab.train import train


def by_priority(log_dir: Path, collectors: int = 1, *, beta_final: float = 1.0, **changes: Any) -> TrainConfig:
    """The ring wraps several times, so that errors come back for rows that are gone."""
    cfg = small(log_dir, collectors, **changes)
    replay = dataclasses.replace(cfg.replay, buffer_size=300, sampler="per", per_beta_final=beta_final)
    return dataclasses.replace(cfg, replay=replay)


@pytest.mark.parametrize("collectors", [1, 3])
def test_lockstep_and_serial_give_the_same_bits(tmp_path: Path, collectors: int) -> None:
    processes = train(by_priority(tmp_path, collectors, utd=0.37))
    serial = train(by_priority(tmp_path, collectors, utd=0.37, serial=True))
    uniform = train(small(tmp_path, collectors, utd=0.37, serial=True))

    assert digests(processes) == digests(serial)
    assert scalars(run_of(processes)) == scalars(run_of(serial))
    assert digests(serial) != digests(uniform)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_draws_by_its_errors(tmp_path: Path, algo: str) -> None:
    two = [train(by_priority(tmp_path, algo=algo, serial=True, total_steps=400)) for _ in range(2)]
    uniform = train(small(tmp_path, 1, algo=algo, serial=True, total_steps=400))

    assert digests(two[0]) == digests(two[1])
    assert two[0].learner_digest != uniform.learner_digest


@pytest.mark.parametrize("collectors", [1, 2])
def test_a_resume_has_the_bits_of_a_run_that_never_stopped(tmp_path: Path, collectors: int) -> None:
    # The exponent of the weights changes with the share of the run, so it is constant where totals differ.
    how: dict[str, Any] = {"serial": True, "save_every": 300, "keep": 0, "log_every": 140, "beta_final": 0.4}
    whole = train(by_priority(tmp_path / "whole", collectors, total_steps=900, **how))
    half = train(by_priority(tmp_path / "half", collectors, total_steps=480, **how))
    middle = min((run_of(whole) / "checkpoints").glob("step_*"))

    both = go_on(run_of(half), total_steps=900)
    assert digests(both) == digests(whole)
    assert scalars(run_of(both))[-1]["lag/rejected_priorities"] == scalars(run_of(whole))[-1]["lag/rejected_priorities"]
    assert digests(go_on(middle)) == digests(whole)


def test_a_resume_in_processes_has_them_too(tmp_path: Path) -> None:
    whole = train(by_priority(tmp_path, 2, total_steps=900, save_every=300, keep=0))
    middle = min((run_of(whole) / "checkpoints").glob("step_*"))

    assert digests(go_on(middle)) == digests(whole)


@pytest.mark.parametrize("pacing", ["lockstep", "free"])
def test_rows_are_whole_and_errors_of_rows_that_are_gone_are_counted(
    tmp_path: Path, pacing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [0, 0]
    update = Runtime.update

    def looked_at(self: Runtime, minibatch: Any) -> None:
        # The toy counts one up with every step.
        assert (minibatch.next_obs[:, 1] == minibatch.obs[:, 1] + 1).all()
        assert minibatch.weights.max() <= 1
        assert minibatch.weights.min() > 0
        seen[0] += 1
        seen[1] += bool(minibatch.weights.min() < 0.99)
        update(self, minibatch)

    monkeypatch.setattr(Runtime, "update", looked_at)
    summary = train(by_priority(tmp_path, 2, pacing=pacing, total_steps=1_500))

    assert seen[0] == summary.updates == 1_500 - 90
    assert seen[1] > 1_000
    assert float(scalars(run_of(summary))[-1]["lag/rejected_priorities"]) > 0


def test_a_free_run_goes_on_with_its_priorities(tmp_path: Path) -> None:
    half = train(by_priority(tmp_path, 2, pacing="free", total_steps=600, save_every=210, keep=0))
    middle = min((run_of(half) / "checkpoints").glob("step_*"))
    both = go_on(middle, total_steps=1_200)

    assert (both.env_steps, both.updates) == (1_200, 1_200 - 90)


@pytest.mark.parametrize("change", [{"per_alpha": 0.9}, {"per_beta": 0.9}, {"per_beta_final": 0.5}], ids=str)
def test_each_option_changes_what_is_learnt(tmp_path: Path, change: dict[str, float]) -> None:
    cfg = by_priority(tmp_path, serial=True, total_steps=400)
    other = train(dataclasses.replace(cfg, replay=dataclasses.replace(cfg.replay, **change)))

    assert other.learner_digest != train(cfg).learner_digest


def test_a_run_starts_with_the_replay_of_another(tmp_path: Path) -> None:
    teacher = train(by_priority(tmp_path, serial=True, total_steps=400))
    cfg = by_priority(tmp_path, 2, serial=True, total_steps=900)

    assert train(dataclasses.replace(cfg, replay_from=run_of(teacher))).updates == 900 - 90


@pytest.mark.parametrize("collectors", [1, 2])
@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("batch_size", [4, 32])
def test_a_run_goes_on_with_another_batch_size(tmp_path: Path, collectors: int, serial: bool, batch_size: int) -> None:
    # The batch that was drawn ahead has the size of before.
    half = run_of(train(by_priority(tmp_path, collectors, total_steps=480, serial=serial)))
    resume = open_resume(str(half), tmp_path)
    saved = saved_config(resume)
    assert saved.replay.batch_size not in (4, 32)
    replay = dataclasses.replace(saved.replay, batch_size=batch_size)
    cfg = dataclasses.replace(saved, total_steps=700, replay=replay)
    check_changes(cfg, saved, {"batch_size"})

    assert train(cfg, resume).env_steps >= 700

"""A run saves while it trains: what it saves is right, what cannot be saved is told, killing it spoils nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unilab.checkpoint import Checkpoints, list_checkpoints, load_checkpoint, load_replay, read_meta
from unilab.config import TrainConfig, overlay
from unilab.replay import Ring, RowLayout
from unilab.rundir import RunSummary
from unilab.train import train

TESTS = Path(__file__).resolve().parents[1]
SMALL: dict[str, Any] = {
    "total_steps": 300,
    "threads": 2,
    "serial": True,
    "keep": 0,
    "save_every": 20,
    "env": {"env": "unilab/Toy-v0", "num_envs": 2},
    "learner": {"hidden": [8, 8]},
    "replay": {"batch_size": 8, "buffer_size": 100, "learning_starts": 40},
    "evaluation": {"eval_episodes": 0},
}


def run(log_dir: Path, **changes: Any) -> tuple[RunSummary, list[Path]]:
    """A short run and its checkpoints."""
    summary = train(overlay(overlay(TrainConfig(log_dir=log_dir), SMALL, "test"), {"name": "it", **changes}, "test"))
    return summary, list_checkpoints(log_dir / "unilab-Toy-v0/sac/it/checkpoints")


def rows_of(path: Path) -> dict[int, bytes]:
    """Every row of a checkpoint, with its version, by number."""
    meta = read_meta(path)
    width = meta["replay"]["row_width"]
    ring = Ring(100, RowLayout(obs_dim=(width - 4) // 2, action_dim=width - 3 - (width - 4) // 2 * 2))
    load_replay(path, [ring])
    low, stop = ring.oldest, ring.cursor
    assert [[low, stop]] == meta["replay"]["rows"]
    rows = np.concatenate(list(ring.read(low, stop)))
    versions = ring.versions(low, stop)
    return {low + i: rows[i].tobytes() + versions[i].tobytes() for i in range(stop - low)}


@pytest.mark.parametrize("serial", [False, True])
def test_all_checkpoints_of_a_run_hold_the_same_rows_wherever_they_overlap(tmp_path: Path, serial: bool) -> None:
    summary, paths = run(tmp_path, serial=serial)
    seen: dict[int, bytes] = {}
    for path in paths:
        state, rows = load_checkpoint(path), rows_of(path)
        assert sorted(rows) == list(range(max(0, state["env_steps"] - 98), state["env_steps"]))
        assert all(seen.setdefault(number, row) == row for number, row in rows.items())

    assert len(paths) == 14
    assert summary.checkpoint == str(paths[-1])
    assert len(seen) == summary.env_steps == 300


def test_saving_changes_nothing_that_is_computed(tmp_path: Path) -> None:
    often, _ = run(tmp_path / "often", save_every=2)
    once, _ = run(tmp_path / "once", save_every=0)

    assert (often.learner_digest, often.replay_digest) == (once.learner_digest, once.replay_digest)


def full_disk(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Saves of these env steps find the disk full."""
    save = Checkpoints._save

    def full(self: Checkpoints, env_steps: int, *rest: Any) -> None:
        if env_steps in steps:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(self, env_steps, *rest)

    monkeypatch.setattr(Checkpoints, "_save", full)


def test_a_save_that_fails_is_told_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full_disk(monkeypatch, 102)
    summary, paths = run(tmp_path)
    lines = capsys.readouterr().out.splitlines()

    assert (summary.status, summary.reason, summary.exit_code) == ("completed", "all env steps done", 0)
    told = "checkpoint at env step 102 could not be saved: No space left on device; training goes on"
    assert lines.count(told) == 1
    assert len(paths) == 13
    assert len(rows_of(paths[-1])) == 98


def test_a_run_whose_last_save_fails_does_not_end_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full_disk(monkeypatch, 300)
    summary, paths = run(tmp_path)
    why = "checkpoint at env step 300 could not be saved: No space left on device"

    assert (summary.status, summary.exit_code) == ("completed", 1)
    assert summary.reason == f"all env steps done; {why}"
    assert summary.checkpoint == str(paths[-1])
    assert capsys.readouterr().out.splitlines()[-1] == f"error: {why}"


def test_a_run_that_could_save_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk(monkeypatch, *range(1000))
    summary, paths = run(tmp_path)

    assert (summary.exit_code, summary.checkpoint, paths) == (1, None, [])


def test_killed_at_any_moment_of_saving_the_newest_checkpoint_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("saving_loop.py")), str(tmp_path / "checkpoints"), "24", "7"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "checkpoint")])},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed in a save") >= 8, done.stdout
    assert done.stdout.splitlines()[-1] == "nothing left over"

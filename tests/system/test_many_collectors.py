"""Several collectors, in lockstep and free-running: the same promises as with one."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from program import SMALL, Start
from test_lockstep import config, digests
from test_resume import go_on, run_of, scalars
from unilab.checkpoint import load_checkpoint, load_replay, read_meta
from unilab.config import TrainConfig
from unilab.errors import ConfigError, UnilabError, WorkerDied
from unilab.hooks import Hooks
from unilab.pacing import PacingConfig
from unilab.replay import Replay, RowLayout
from unilab.replay.ring import RANDOM_POLICY
from unilab.resume import check_changes, open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train

TOY = RowLayout(3, 1)


def small(log_dir: Path, collectors: int = 2, **changes: Any) -> TrainConfig:
    pacing = {name: changes.pop(name) for name in PacingConfig.__dataclass_fields__ if name in changes}
    cfg = config(log_dir, **{"num_envs": 6, "total_steps": 1_000, **changes})
    return dataclasses.replace(cfg, pacing=dataclasses.replace(cfg.pacing, num_collectors=collectors, **pacing))


def replay_of(summary: RunSummary, collectors: int = 2, capacity: int = 500) -> Replay:
    part = capacity // collectors
    replay = Replay([part + (i < capacity % collectors) for i in range(collectors)], TOY)
    load_replay(Path(str(summary.checkpoint)), replay.rings)
    return replay


def rows_of(summary: RunSummary, collectors: int = 2) -> list[np.ndarray]:
    replay = replay_of(summary, collectors)
    rows = [np.concatenate([part.copy() for part in ring.read(ring.oldest, ring.cursor)]) for ring in replay.rings]
    replay.free()
    return rows


def column(run: Path, name: str) -> list[float]:
    with open(run / "progress.csv") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


# ------------------------------------------------------------ lockstep


@pytest.mark.parametrize("collectors", [2, 3])
def test_in_lockstep_a_number_of_collectors_is_one_result_in_processes_and_in_one(
    tmp_path: Path, collectors: int
) -> None:
    processes = train(small(tmp_path, collectors, utd=0.37))
    serial = train(small(tmp_path, collectors, utd=0.37, serial=True))

    assert digests(processes) == digests(serial)
    assert scalars(run_of(processes)) == scalars(run_of(serial))
    assert processes.env_steps == 1_002


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("collectors", [1, 2])
def test_in_lockstep_the_policy_is_one_version_old_whatever_has_come_in_since(
    tmp_path: Path, collectors: int, serial: bool
) -> None:
    run = run_of(train(small(tmp_path, collectors, serial=serial, log_every=30)))

    lags = column(run, "lag/policy")
    assert len(lags) > 20
    assert set(lags[1:]) == {1.0}


def test_each_collector_has_its_own_envs_and_every_env_its_share_of_the_rows(tmp_path: Path) -> None:
    first, second = rows_of(train(small(tmp_path)))

    for rows, envs in ((first, {0, 1, 2}), (second, {3, 4, 5})):
        counts = Counter(rows[:, 0].tolist())
        assert set(counts) == envs
        assert max(counts.values()) - min(counts.values()) <= 1
    assert len(first) == len(second)
    for rows in (first, second):
        obs, next_obs = rows[:, TOY.columns["obs"]], rows[:, TOY.columns["next_obs"]]
        assert (next_obs[:, 1] == obs[:, 1] + 1).all()


def test_no_two_envs_and_no_two_explorations_of_a_run_are_alike(tmp_path: Path) -> None:
    changes = {"env": "Pendulum-v1", "num_envs": 4, "total_steps": 400, "serial": True}
    summary = train(small(tmp_path, replay=config(tmp_path).replay, **changes))
    replay = Replay([250, 250], RowLayout(3, 1))
    load_replay(Path(str(summary.checkpoint)), replay.rings)
    rows = np.concatenate([part.copy() for ring in replay.rings for part in ring.read(ring.oldest, ring.cursor)])
    replay.free()

    assert len(np.unique(rows[:, 0])) > 0.99 * len(rows)
    assert len(np.unique(rows[:, replay.layout.columns["action"]])) > 0.9 * len(rows)


@pytest.mark.parametrize("changes", [{"serial": True}, {}, {"serial": True, "n_step": 3}], ids=str)
def test_a_resume_has_the_bits_of_a_run_that_never_stopped(tmp_path: Path, changes: dict[str, Any]) -> None:
    n_step, changes = changes.get("n_step", 1), {k: v for k, v in changes.items() if k != "n_step"}

    def case(log_dir: Path, total: int) -> TrainConfig:
        cfg = small(log_dir, total_steps=total, save_every=300, keep=0, log_every=140, **changes)
        return dataclasses.replace(cfg, learner=dataclasses.replace(cfg.learner, n_step=n_step))

    whole = train(case(tmp_path / "whole", 900))
    half = train(case(tmp_path / "half", 480))
    middle = min((run_of(whole) / "checkpoints").glob("step_*"))

    assert digests(go_on(run_of(half), total_steps=900)) == digests(whole)
    assert digests(go_on(middle)) == digests(whole)


def test_the_number_of_collectors_cannot_differ_in_a_run_that_goes_on(tmp_path: Path) -> None:
    summary = train(small(tmp_path, serial=True))
    resume = open_resume(str(run_of(summary)), tmp_path)

    with pytest.raises(ConfigError, match=r"pacing.num_collectors=1 \(was 2\); leave them out$"):
        check_changes(small(tmp_path, 1, serial=True), saved_config(resume), ())


def test_the_replay_of_two_collectors_starts_a_run_of_three_and_of_one(tmp_path: Path) -> None:
    teacher = train(small(tmp_path / "teacher", serial=True))
    theirs = {tuple(row) for rows in rows_of(teacher) for row in rows.tolist()}
    for collectors in (1, 3):
        cfg = small(tmp_path, collectors, serial=True, total_steps=200)
        replay = dataclasses.replace(cfg.replay, buffer_size=900)
        pupil = train(dataclasses.replace(cfg, replay=replay, replay_from=run_of(teacher)))
        held = replay_of(pupil, collectors, capacity=900)
        preloaded = [row for ring in held.rings for part in ring.read(ring.oldest, 0) for row in part.tolist()]
        versions = np.concatenate([ring.versions(ring.oldest, 0) for ring in held.rings])
        held.free()

        assert len(preloaded) == len(theirs)
        assert {tuple(row) for row in preloaded} == theirs
        assert set(versions.tolist()) == {RANDOM_POLICY}


# ------------------------------------------------------------ free-running


@pytest.mark.parametrize("changes", [{}, {"utd": 0.37}, {"cold_start_debt": "keep"}, {"cold_start_debt": 40}], ids=str)
def test_free_running_makes_the_updates_and_steps_that_were_asked_for(tmp_path: Path, changes: dict[str, Any]) -> None:
    summary = train(small(tmp_path, pacing="free", total_steps=999, **changes))
    owed = {"keep": 90, 40: 40}.get(changes.get("cold_start_debt"), 0)

    assert summary.env_steps == 999
    assert summary.updates == int(round(100 * changes.get("utd", 1.0)) * (999 - 90 + owed) // 100)
    assert summary.status == "completed"


def test_every_row_of_a_free_run_is_whole_and_has_the_version_that_acted(tmp_path: Path) -> None:
    summary = train(small(tmp_path, pacing="free", total_steps=2_000))
    replay = replay_of(summary)
    for ring in replay.rings:
        (rows,) = [np.concatenate([part.copy() for part in ring.read(ring.oldest, ring.cursor)])]
        versions = ring.versions(ring.oldest, ring.cursor)
        assert (rows[:, TOY.columns["next_obs"]][:, 1] == rows[:, 1] + 1).all()
        assert set(rows[:, 0].tolist()) == {3 * ring.index + i for i in range(3)}
        assert (np.diff(versions) >= 0).all()
        rounds = np.arange(ring.oldest, ring.cursor) // 3
        assert all(len(set(versions[rounds == one].tolist())) == 1 for one in np.unique(rounds))
        assert versions.max() <= summary.ticks
    replay.free()


@pytest.mark.parametrize("action", ["accept", "wait", "drop"])
def test_the_lag_bound_is_told_kept_or_enforced(tmp_path: Path, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    summary = train(
        small(
            tmp_path,
            env="fault_envs:Fault-v0",
            # Only the second collector's envs are slow, 20 ms a step each: many ticks of any machine.
            env_kwargs={"where": "step", "how": "slow", "who": "collector-1"},
            pacing="free",
            max_policy_lag=2,
            lag_action=action,
            log_every=90,
            num_envs=4,
            total_steps=700,
        )
    )
    run = run_of(summary)
    largest, over = max(column(run, "lag/at_arrival_max")), sum(column(run, "lag/over_bound"))

    assert summary.env_steps == 700
    assert max(column(run, "lag/at_launch_max")) == 0
    if action == "accept":
        assert largest > 2
        assert over > 0
    else:
        assert largest <= 2
        assert over == 0
    assert bool(column(run, "lag/dropped_steps")) == (action == "drop")


def test_a_free_run_that_goes_on_has_its_counters_and_ends_exactly(tmp_path: Path) -> None:
    half = train(small(tmp_path, pacing="free", total_steps=600, save_every=210, keep=0))
    middle = min((run_of(half) / "checkpoints").glob("step_*"))
    state = load_checkpoint(middle)
    assert sum(state["finished"]) >= sum(state["counted"]) >= state["tick"]
    both = go_on(middle, total_steps=1_200)

    assert (both.env_steps, both.updates) == (1_200, 1_200 - 90)
    assert (column(run_of(both), "train/n_updates")[-1], both.status) == (1_110, "completed")


def test_collectors_run_ahead_as_far_as_they_may(tmp_path: Path) -> None:
    """The learner is slow, so chunks wait for it; weights that act are the newest all the same."""
    debts = {}
    for ahead in (2, 12):
        cfg = small(tmp_path, pacing="free", utd=5.0, max_unspent_chunks=ahead, total_steps=500, log_every=30)
        run = run_of(train(cfg))
        debts[ahead] = column(run, "lag/debt_chunks")
        assert np.median(column(run, "lag/policy")) <= 2

    assert max(debts[2]) <= 2
    assert np.median(debts[12]) >= 9
    assert max(debts[12]) <= 12


def test_weights_are_published_as_often_as_was_asked_for(tmp_path: Path) -> None:
    summary = train(small(tmp_path, pacing="free", publish_interval=7))
    replay = replay_of(summary)
    versions = {v for ring in replay.rings for v in ring.versions(ring.oldest, ring.cursor).tolist()}
    replay.free()

    assert versions
    assert all(version % 7 == 0 for version in versions)


def test_a_free_run_trains_on_the_rows_of_all_collectors_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are drawn uniformly, whatever the ranges' fill: here one collector brings in far fewer."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    drawn: list[int] = []
    held: list[tuple[int, ...]] = []
    from unilab.replay import host_slots

    pack = host_slots.pack

    def packing(rings: Any, sampler: Any, out: Any, *, tick: int, domain: Any) -> Any:
        held.append(tuple(high - low for low, high in domain))
        packed = pack(rings, sampler, out, tick=tick, domain=domain)
        drawn.extend(out[:, 0].tolist())
        return packed

    monkeypatch.setattr(host_slots, "pack", packing)
    cfg = small(tmp_path, pacing="free", env="unilab/Toy-v0", total_steps=3_000, learner=config(tmp_path).learner)
    train(cfg)
    share = sum(a / (a + b) for a, b in held) / len(held)
    from_first = sum(env < 3 for env in drawn) / len(drawn)

    assert abs(from_first - share) < 0.02
    assert len(drawn) == 8 * (3_000 - 90)


# ------------------------------------------------------------ faults and machine


def test_one_dead_collector_of_several_ends_the_run_by_its_name(start: Start) -> None:
    program = start(
        "--env", "fault_envs:Fault-v0", "--env-kwargs", "where=step", "how=raise", "who=collector-1", "--num-envs", "4",
        "--num-collectors", "2", "--pacing", "free", "--total-steps", "1M", "--learning-starts", "40",
        "--eval-episodes", "0", *SMALL,
    )  # fmt: skip

    assert program.end() == 70, program.text
    assert "on purpose in step" in program.text[program.text.rindex("error: ") :]
    assert "collector-1" in program.text[program.text.rindex("error: ") :]
    assert program.left_over() == []


@pytest.mark.parametrize(
    ("collectors", "kills", "step_ms", "total"),
    [(3, 3, 1, 30_000), pytest.param(4, 20, 15, 72_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("pacing", ["lockstep", "free"])
def test_random_kills_of_random_collectors_cost_no_step_and_no_update(
    start: Start, pacing: str, collectors: int, kills: int, step_ms: int, total: int
) -> None:
    rng, prefill = random.Random(pacing), 30 * collectors
    program = start(
        "--env", "unilab/Toy-v0", "--env-kwargs", f"step_ms={step_ms}", "--num-envs", str(2 * collectors),
        "--num-collectors", str(collectors), "--pacing", pacing, "--learning-starts", str(prefill),
        "--eval-episodes", "0", "--total-steps", str(total), "--utd", "0.1", "--max-restarts", str(kills), *SMALL,
    )  # fmt: skip
    trained = f"env_steps={prefill} of={prefill}"
    program.until(lambda: trained in program.text and len(program.collectors()) == collectors, "training")
    for number in range(1, kills + 1):
        victim = rng.choice(program.collectors())
        os.kill(victim, signal.SIGKILL)
        program.until(lambda n=number: f"collector restart {n} of {kills}" in program.text, f"restart {number}")
        program.until(
            lambda v=victim: len(program.collectors()) == collectors and v not in program.collectors(), "a new one"
        )

    assert program.end(600) == 0, program.text
    summary = program.summary
    assert (summary["status"], summary["restarts"]) == ("completed", kills)
    assert (summary["env_steps"], summary["updates"]) == (total, (total - prefill) // 10)
    assert program.left_over() == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_spread_collectors_keep_to_cores_of_their_own(start: Start) -> None:
    program = start(
        "--env", "unilab/Toy-v0", "--num-envs", "2", "--num-collectors", "2", "--affinity", "spread",
        "--env-kwargs", "step_ms=1", "--total-steps", "1M", "--learning-starts", "40", "--eval-episodes", "0", *SMALL,
    )  # fmt: skip
    program.until(lambda: "updates/s=" in program.text, "training")
    cores = sorted(os.sched_getaffinity(0))
    theirs = [os.sched_getaffinity(pid) for pid in program.collectors()]
    os.kill(program.process.pid, signal.SIGINT)

    assert os.sched_getaffinity(0) == set(cores)
    assert all(len(own) == 1 for own in theirs)
    assert {core for own in theirs for core in own} == set(cores[1:][-2:])
    assert program.end() == 130


def test_a_run_with_affinity_gives_the_cores_back(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    train(small(tmp_path, affinity="spread", serial=True, total_steps=200))

    assert os.sched_getaffinity(0) == before


def test_a_hanging_collector_is_found_while_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    kwargs = {"where": "step", "how": "hang", "who": "collector-1"}
    cfg = small(
        tmp_path, env="fault_envs:Fault-v0", env_kwargs=kwargs, pacing="free", stall_limit_s=3.0, total_steps=10**6,
    )  # fmt: skip

    with pytest.raises(WorkerDied, match=r"no data from collector-1 \(pid \d+\) for \d+ s"):
        train(cfg)


def test_shares_of_time_after_going_on_leave_out_the_wait_for_the_others(tmp_path: Path) -> None:
    first = train(small(tmp_path, 3, total_steps=480))
    resume = open_resume(str(run_of(first)), tmp_path)
    said = io.StringIO()
    train(dataclasses.replace(saved_config(resume), total_steps=3_000), resume, Hooks(stream=said))

    lines = re.findall(r"^(?:learner|collector-\d) .*%.*$", said.getvalue(), re.MULTILINE)
    assert len(lines) == 4, said.getvalue()
    for line in lines:
        shares = [float(share) for share in re.findall(r"(-?[\d.]+) %", line)]
        assert all(-1.0 <= share <= 100.0 for share in shares), line


@pytest.mark.parametrize("sampler", ["uniform", "per"])
@pytest.mark.parametrize("serial", [False, True])  # how it goes on
def test_a_run_whose_collector_failed_behind_the_others_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str, serial: bool
) -> None:
    # The others have finished the chunk in which it fails: they do it again.
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    (tmp_path / "armed").touch()
    cfg = small(tmp_path, 2, env="sample_envs:SecondFails-v0", num_envs=2, total_steps=300)
    cfg = dataclasses.replace(cfg, replay=dataclasses.replace(cfg.replay, sampler=sampler))

    with pytest.raises(UnilabError, match="on purpose"):
        train(cfg)
    run = (tmp_path / "latest").resolve()
    [saved] = (run / "checkpoints").glob("step_*")
    state = load_checkpoint(saved)
    assert state["tick"] == 14
    assert state["finished"] == [14, 14]
    assert state["env_steps"] == 90 + 14 * 2
    end = go_on(run, serial=serial)
    assert (end.env_steps, end.updates, end.status) == (300, 210, "completed")
    assert read_meta(Path(str(end.checkpoint)))["replay"]["rows"] == [[0, 150], [0, 150]]


def test_a_run_is_saved_that_is_stopped_while_the_learner_waits_for_old_chunks(start: Start) -> None:
    program = start(
        "--env", "sample_envs:LastIsSlow-v0", "--num-envs", "2", "--num-collectors", "2", "--pacing", "free",
        "--max-policy-lag", "1", "--lag-action", "wait", "--total-steps", "1M", "--learning-starts", "20",
        "--eval-episodes", "0", "--log-every", "1", *SMALL,
    )  # fmt: skip
    program.until(lambda: "updates/s=" in program.text, "training")
    time.sleep(1.0)  # nearly all of the time the learner waits for the slow one
    os.kill(program.process.pid, signal.SIGINT)

    assert program.end() == 130
    assert "saved nothing" not in program.text
    assert "in the middle of tick" not in program.text
    summary = program.summary
    state = load_checkpoint(Path(str(summary["checkpoint"])))
    assert state["tick"] == summary["ticks"]

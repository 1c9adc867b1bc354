"""Real runs on the native backend."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from program import SMALL, Start
from test_lockstep import config, digests
from unilab.train import train


def test_a_simulation_that_blows_up_ends_episodes_not_the_run(start: Start) -> None:
    words = ("--total-steps", "600", "--num-envs", "3", "--eval-episodes", "0", "--log-every", "100")
    program = start("--env", "native_tasks:Loose-v0", *words, *SMALL)
    assert program.end() == 0, program.text

    assert program.summary["env_steps"] == 600
    folder = (program.log_dir / "latest").resolve()
    assert "unstable" in (folder / "MUJOCO_LOG.TXT").read_text()
    stray = [path for path in program.log_dir.rglob("MUJOCO_LOG.TXT") if path.resolve().parent != folder]
    assert not stray
    assert "The simulation is unstable" not in program.text
    rows = list(csv.DictReader((folder / "progress.csv").open()))
    shares = [float(row["rollout/unstable"]) for row in rows if row.get("rollout/unstable")]
    assert shares
    assert max(shares) > 0.5, "most episodes of random actions blow up"


def test_lockstep_and_serial_give_the_same_bits_on_a_native_task(tmp_path: Path) -> None:
    changes = {"env": "Ant-v5", "total_steps": 200, "num_envs": 4, "env_kwargs": {"max_episode_steps": 30}}
    lockstep = train(config(tmp_path, **changes))
    serial = train(config(tmp_path, **changes, serial=True))

    assert digests(lockstep) == digests(serial)


def test_a_run_does_not_depend_on_the_backend(tmp_path: Path) -> None:
    found = set()
    for backend, kwargs in (("mujoco", {"stagger": False}), ("gymnasium", {})):
        serial = backend == "gymnasium"  # the same bits, and faster to start
        cfg = config(tmp_path, env="InvertedPendulum-v5", total_steps=250, num_envs=3, env_kwargs=kwargs, serial=serial)
        found.add(digests(train(replace(cfg, env=replace(cfg.env, backend=backend)))))

    assert len(found) == 1

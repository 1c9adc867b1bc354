"""``scripts/sweep.py`` with real runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from program import REPOSITORY, SMALL

TOY = ["--env", "unilab/Toy-v0", "--learning-starts", "20", "--eval-episodes", "2", "--serial", *SMALL]


def sweep(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(REPOSITORY / "scripts/sweep.py"), *TOY, "--log-dir", str(folder), *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_seeds_are_trained_one_after_the_other_and_compared(tmp_path: Path) -> None:
    process = sweep(tmp_path, "--seeds", "3,5", "--total-steps", "60", "--name", "x")
    said, _ = process.communicate(timeout=170)

    assert process.returncode == 0, said
    (file,) = tmp_path.glob("*/sac/x.json")
    result = json.loads(file.read_text())
    summaries = [json.loads((Path(run) / "summary.json").read_text()) for run in result["runs"]]
    assert list(result["scores"].values()) == [summary["final_eval_mean"] for summary in summaries]
    configs = [(Path(run) / "config.yaml").read_text() for run in result["runs"]]
    assert ["seed: 3\n" in configs[0], "seed: 5\n" in configs[1]] == [True, True]
    assert f"unilab plot {' '.join(result['runs'])}" in said


def test_the_run_ends_and_saves_when_the_sweep_is_killed(tmp_path: Path) -> None:
    process = sweep(tmp_path, "--seeds", "2", "--total-steps", "10M", "--name", "x")
    deadline = time.monotonic() + 120
    try:
        while not list(tmp_path.glob("*/sac/x_s0/progress.csv")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()

    (run,) = tmp_path.glob("*/sac/x_s0")
    while not (run / "summary.json").is_file():
        assert time.monotonic() < deadline + 40
        time.sleep(0.05)
    assert json.loads((run / "summary.json").read_text())["exit_code"] == 143
    assert not (run.parent / "x_s1").exists()

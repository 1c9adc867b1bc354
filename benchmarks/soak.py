"""Does a run that goes on and on take more memory, descriptors or threads?

    python benchmarks/soak.py [MINUTES]         30 by default

A whole run at full speed, HalfCheetah with the default networks, that saves, logs and traces far more often than usual.
It is watched from outside through /proc, ended by SIGTERM after its time, and then resumed for its last steps and the
final evaluation. Memory is what belongs to a process alone (RssAnon): the ring fills for as long as it is not full.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import RESULTS, report

SAMPLE_S = 2.0
TRAIN = [sys.executable, "scripts/train.py", "--env", "HalfCheetah-v5", "--device", "cpu", "--trace"]
OFTEN = ["--save-every", "2000", "--log-every", "500", "--buffer-size", "100000"]
Sample = tuple[float, float, int, int]  # minutes, MB, descriptors, threads


def main() -> int:
    """Run, watch, resume; claims on what grows."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    with tempfile.TemporaryDirectory() as folder:
        learner, collector = soak(Path(folder), minutes)
        summary = finish(Path(folder))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, samples in (("learner", learner), ("collector", collector)):
        np.savetxt(RESULTS / f"soak_{name}.csv", samples, "%.4g", ",", header="minutes,MB,descriptors,threads")
    warm = min(5.0, minutes / 3)
    results = {"run": {"minutes": minutes, "warm_up_minutes": warm, **summary}}
    claims: dict[str, tuple[float, float]] = {"exit code of the resumed run": (summary["exit_code"], 0)}
    for name, samples in (("learner", learner), ("collector", collector)):
        results[name] = figures = growth([sample for sample in samples if sample[0] >= warm])
        claims[f"{name}: memory, MB a minute"] = (figures["MB_per_minute"], 1.0)
        claims[f"{name}: descriptors more at the end"] = (figures["descriptors_grown"], 0)
        claims[f"{name}: threads more at the end"] = (figures["threads_grown"], 0)
    return report(f"soak_{minutes:g}_minutes", results, claims)


def soak(log_dir: Path, minutes: float) -> tuple[list[Sample], list[Sample]]:
    """Samples of learner and collector over a run that is then ended by SIGTERM."""
    words = [*TRAIN, *OFTEN, "--log-dir", str(log_dir), "--total-steps", "1000M"]
    with open(log_dir / "console.txt", "wb") as console:
        process = subprocess.Popen(words, stdout=console, stderr=subprocess.STDOUT)
    learner: list[Sample] = []
    collector: list[Sample] = []
    began = time.monotonic()
    while (spent := (time.monotonic() - began) / 60) < minutes:
        if process.poll() is not None:
            raise SystemExit(f"the run ended early:\n{(log_dir / 'console.txt').read_text()[-3000:]}")
        learner.append(sample(spent, process.pid))
        collector += [sample(spent, pid) for pid in spawned(process.pid)]
        time.sleep(SAMPLE_S)
    process.send_signal(signal.SIGTERM)
    if process.wait(60) != 128 + signal.SIGTERM:
        raise SystemExit(f"exit code {process.returncode} instead of 143")
    return learner, collector


def finish(log_dir: Path) -> dict[str, float]:
    """Resume for a few steps and the final evaluation; counts and speeds of both parts together."""
    run = (log_dir / "latest").resolve()
    total = json.loads((run / "summary.json").read_text())["env_steps"] + 2000
    done = subprocess.run([*TRAIN, "--resume", str(run), "--total-steps", str(total), "--log-dir", str(log_dir)])
    summary = json.loads((run / "summary.json").read_text())
    names = ("env_steps", "updates", "env_steps_per_s", "updates_per_s", "final_eval_mean", "wall_time_s")
    return {"exit_code": done.returncode} | {name: summary[name] for name in names}


def sample(minutes: float, pid: int) -> Sample:
    """What a process holds now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    megabytes = int(status["RssAnon"].split()[0]) / 1024
    return minutes, megabytes, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def spawned(parent: int) -> list[int]:
    """The workers of a run."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def growth(samples: Sequence[Sample]) -> dict[str, float]:
    """Slope of the memory; by how much the usual number of descriptors and threads rose from one half to the other."""
    minutes, megabytes, descriptors, threads = (np.array(column) for column in zip(*samples, strict=True))
    half = len(samples) // 2

    def usual(counts: np.ndarray) -> tuple[int, int]:
        # A save opens a file and has a thread for a moment: the most frequent number is what stays.
        return tuple(int(np.bincount(part).argmax()) for part in (counts[:half], counts[half:]))  # type: ignore[return-value]

    return {
        "MB_per_minute": float(np.polyfit(minutes, megabytes, 1)[0]),
        "MB_first": float(megabytes[0]),
        "MB_last": float(megabytes[-1]),
        "descriptors": usual(descriptors)[1],
        "descriptors_grown": usual(descriptors)[1] - usual(descriptors)[0],
        "threads": usual(threads)[1],
        "threads_grown": usual(threads)[1] - usual(threads)[0],
        "samples": len(samples),
    }


if __name__ == "__main__":
    sys.exit(main())

"""Does everything that a run does on CUDA come out right on this GPU, and what does it bring?

    python benchmarks/gpu_check.py

A few minutes, no network. `make test-gpu` looks at the parts with tests; this looks at the same machine in one page:
page-locked copies under a slow consumer, losses on CPU and CUDA, bfloat16 and compiled updates next to plain ones, then
updates/s, how much of a copy hides behind updates, and where a traced run's time goes. A check that fails does not keep
the others from running; the exit code is how many failed. Without a CUDA device it says so and ends with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch

from unilab.algos.base import LearnerConfig
from unilab.algos.compiled import EAGER, Compute
from unilab.algos.learner import Learner
from unilab.algos.registry import ALGORITHMS, make_learner
from unilab.shm import Arrays, Field
from unilab.spec import EnvSpec, Minibatch
from unilab.transfer import CudaCopier

REPOSITORY = Path(__file__).resolve().parent.parent
SPEC = EnvSpec(env_id="-", obs_dim=17, action_dim=6, action_low=(-1.0,) * 6, action_high=(1.0,) * 6)
WIDTH = 2 * SPEC.obs_dim + SPEC.action_dim + 3
SIZES = {"2x256, batch 256": ((256, 256), 256, 200), "2x512, batch 8192": ((512, 512), 8192, 20)}
BF16 = Compute(precision="bf16")
COMPILED = Compute(compiled=True)
Figures = dict[str, float]


def main() -> int:
    """Run all checks, print and write what they found."""
    if not torch.cuda.is_available():
        print("gpu_check: torch finds no CUDA device here; nothing was checked")
        return 0
    print(f"== gpu_check on {torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    checks: dict[str, Callable[[], Figures]] = {
        "host slots are page-locked in place": page_locked,
        "a slow consumer never sees a slot overwritten": slow_consumer,
        "losses on CPU and CUDA agree": lambda: agreed(twins("td3", ("cpu", EAGER), ("cuda", EAGER)), 1e-3),
        "bfloat16 products stay near float32": lambda: agreed(twins("sac", ("cuda", EAGER), ("cuda", BF16)), 5e-2),
        "a compiled update is the eager one": lambda: agreed(twins("sac", ("cuda", EAGER), ("cuda", COMPILED)), 1e-3),
        "updates/s": speeds,
        "copies hide behind updates": overlap,
        "where a tick goes": traced,
    }
    results: dict[str, Figures] = {}
    failed = 0
    for name, check in checks.items():
        began_s = time.perf_counter()
        try:
            results[name] = check()
        except Exception:
            traceback.print_exc()
            failed += 1
        print(f"  {'ok   ' if name in results else 'FAILS'} {name} ({time.perf_counter() - began_s:.1f} s)", flush=True)
    harness.report("gpu_check", results)
    return failed


def page_locked() -> Figures:
    """The copier's own notice, and torch's opinion of the same memory."""
    arrays, copier = slots(rows=20_000)
    try:
        assert copier.notice is None, copier.notice
        assert all(torch.from_numpy(slot).is_pinned() for slot in arrays.host)
    finally:
        copier.close()
        arrays.free()
    return {"slots": 2.0}


def slow_consumer(ticks: int = 60) -> Figures:
    """The host is far ahead of the device: each slot is filled again as soon as the copier allows."""
    arrays, copier = slots(rows=20_000)
    square = torch.full((2048, 2048), 1e-4, device="cuda")
    seen = []
    try:
        for tick in range(ticks):
            slot = tick % 2
            copier.wait_host_free(slot)
            arrays.host[slot] = tick
            copier.submit(slot, 20_000)
            rows = copier.ready(slot, 20_000)
            for _ in range(20):
                square = square @ square
            seen.append(torch.stack([rows.min(), rows.max()]))
            copier.consumed(slot)
        found = torch.stack(seen).tolist()
    finally:
        copier.close()
        arrays.free()
    assert found == [[tick, tick] for tick in range(ticks)], found
    return {"ticks": float(ticks)}


def slots(rows: int) -> tuple[Arrays, CudaCopier]:
    """Host slots as in a run, and their copier."""
    arrays = Arrays([Field("host", (2, rows, WIDTH), "float32")], "host slots")
    return arrays, CudaCopier(arrays.host, torch.device("cuda"))


def twins(algo: str, *where: tuple[str, Compute], updates: int = 10) -> list[list[Figures]]:
    """Scalars of the same updates, computed in several ways: [ways][updates] by name.

    Noise comes from a generator of the device, so between devices only an algorithm without any can agree.
    """
    config = ALGORITHMS[algo].config()
    if algo == "td3":
        config = replace(config, target_noise=0.0)
    found = []
    for device, compute in where:
        learner = make(algo, (256, 256), config, device, compute)
        batches = [on(rows(256, seed), device) for seed in range(updates)]
        found.append([{name: float(value) for name, value in learner.update(batch).items()} for batch in batches])
    return found


def agreed(ways: list[list[Figures]], tolerance: float) -> Figures:
    """The largest difference of a scalar, as a share of its size and at least of 1.

    Raises:
        AssertionError: it is larger than the tolerance.
    """
    worst = max(
        abs(one[name] - other[name]) / max(1.0, abs(one[name]))
        for one, other in zip(*ways, strict=True)
        for name in one
    )
    assert worst <= tolerance, f"they differ by {worst:.3g}, allowed {tolerance:g}"
    return {"largest_difference": worst, "allowed": tolerance}


def speeds() -> Figures:
    """Updates/s by size and way; compiled only as a run would be, since each graph takes half a minute."""
    ways = {
        "cpu": ("cpu", EAGER),
        "cuda": ("cuda", EAGER),
        "cuda_bf16": ("cuda", BF16),
        "cuda_compiled_bf16": ("cuda", Compute(compiled=True, precision="bf16")),
    }
    found = {}
    for size, (hidden, batch, calls) in SIZES.items():
        for way, (device, compute) in ways.items():
            count = calls if device == "cuda" else max(2, calls // 10)
            found[f"{way}, {size}"] = updates_per_s(hidden, batch, device, compute, count)
    return found


def updates_per_s(hidden: tuple[int, ...], batch: int, device: str, compute: Compute, calls: int) -> float:
    """Median of three, SAC as its preset has it."""
    learner = make("sac", hidden, ALGORITHMS["sac"].config(), device, compute)
    batches = [on(rows(batch, seed), device) for seed in range(2)]
    times = []
    for repeat in range(4):
        began_s = time.perf_counter()
        for call in range(calls):
            learner.update(batches[call % 2])
        settle(device)
        times += [time.perf_counter() - began_s] if repeat else []  # the first one compiles
    return calls / float(np.median(times))


def overlap(ticks: int = 40, batch: int = 8192, updates: int = 4) -> Figures:
    """Copies alone, updates alone, and both through the copier's events; 1 where the shorter one costs nothing."""
    arrays, copier = slots(rows=batch * updates)
    learner = make("sac", (512, 512), ALGORITHMS["sac"].config(), "cuda", EAGER)
    minibatch = on(rows(batch, 0), "cuda")
    count = batch * updates

    def copies() -> None:
        for tick in range(ticks):
            copier.submit(tick % 2, count)
            copier.ready(tick % 2, count)
            copier.consumed(tick % 2)

    def computes() -> None:
        for _ in range(ticks * updates):
            learner.update(minibatch)

    def both() -> None:
        copier.submit(0, count)
        for tick in range(ticks):
            packed = copier.ready(tick % 2, count)
            copier.submit((tick + 1) % 2, count)
            for i in range(updates):
                learner.update(columns(packed[i * batch : (i + 1) * batch]))
            copier.consumed(tick % 2)

    try:
        arrays.host[:] = rows_packed(count, 0).numpy()
        spent = {}
        for name, work in (("copy", copies), ("update", computes), ("both", both)):
            work()
            settle("cuda")
            began_s = time.perf_counter()
            work()
            settle("cuda")
            spent[f"{name}_ms"] = 1e3 * (time.perf_counter() - began_s) / ticks
    finally:
        copier.close()
        arrays.free()
    gigabytes = count * WIDTH * 4 / 1e9
    return spent | {
        "copy_gb_per_s": gigabytes / (spent["copy_ms"] / 1e3),
        "both_over_longer": spent["both_ms"] / max(spent["copy_ms"], spent["update_ms"]),
    }


def traced() -> Figures:
    """A short run with a trace, as its own report reads it."""
    with tempfile.TemporaryDirectory() as folder:
        train = (
            "--algo sac --env HalfCheetah-v5 --device cuda --trace --total-steps 4000 --eval-every 0 --eval-episodes 0"
        )
        train += f" --log-dir {folder} --name run"
        said(["scripts/train.py", *train.split()])
        run = f"{folder}/HalfCheetah-v5/sac/run"
        print(said(["scripts/trace_report.py", run]))
        (content,) = json.loads(said(["scripts/trace_report.py", run, "--json"])).values()
        summary = json.loads((Path(run) / "summary.json").read_text())
    return {
        "env_steps_per_s": content["timing"]["env_steps_per_s"],
        "tick_over_longer": content["tick_over_longer"],
        "collect_ms": 1e3 * content["collect_s"],
        "update_ms": 1e3 * content["update_s"],
        "wall_s": summary["wall_time_s"],
    }


def said(words: list[str]) -> str:
    """What a script of the repository prints; its errors are shown where it fails."""
    done = subprocess.run([sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"{words[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}"
    return done.stdout


def make(algo: str, hidden: tuple[int, ...], config: Any, device: str, compute: Compute) -> Learner:
    """A learner with plain settings and a seed of 0."""
    return make_learner(algo, SPEC, LearnerConfig(hidden=hidden), config, seed=0, device=device, compute=compute)


def rows(count: int, seed: int) -> Minibatch:
    """Random rows on the CPU."""
    return columns(rows_packed(count, seed))


def rows_packed(count: int, seed: int) -> torch.Tensor:
    """[count, WIDTH] as in the ring."""
    packed = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    packed[:, 17:23].tanh_()
    packed[:, -2:] = 0.0
    return packed


def columns(packed: torch.Tensor) -> Minibatch:
    """Columns of packed rows, as the pipeline hands them over."""
    obs, action, reward, next_obs, flags = packed.split((17, 6, 1, 17, 2), dim=1)
    return Minibatch(obs, action, reward[:, 0], next_obs, flags[:, 0], flags[:, 1], obs, next_obs)


def on(batch: Minibatch, device: str) -> Minibatch:
    """The same rows on a device."""
    values = (getattr(batch, one.name) for one in fields(batch))
    return Minibatch(*(value.to(device) if isinstance(value, torch.Tensor) else value for value in values))


def settle(device: str) -> None:
    """Wait for what is queued there."""
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())

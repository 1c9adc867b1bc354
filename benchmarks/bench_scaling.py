"""Does a part of a tick cost what its work is, and nothing for the size of the buffer?

    python benchmarks/bench_scaling.py [--quick]

One process, one thread. Collecting: HalfCheetah-v5, from 1 to 1,024 envs, policy and append included. Drawing a batch:
rings of 100,000 to 10,000,000 rows of 41 to 801 floats, as far as a quarter of the free memory goes. Updating: eager
SAC in float32, over the width of the nets and over the batch. --quick takes the ends and the middle of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from bench_update import SPEC, rows
from harness import interleaved, report

from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.registry import make_learner, make_policy
from unilab.algos.sac import SACConfig
from unilab.budget import available_bytes, keep_freed_memory
from unilab.config import TrainConfig, update_gflop
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.replay import Ring, RowLayout, UniformSampler, pack
from unilab.seeding import stream

Figures = dict[str, dict[str, float]]
ENVS = (1, 4, 16, 64, 256, 1024)
BUFFERS = (100_000, 1_000_000, 10_000_000)
ROW_WIDTHS = (41, 201, 801)  # floats: two observations, 6 actions, reward, two flags
BATCH = 2048
NETS = (64, 128, 256, 512, 1024)
BATCHES = (64, 256, 1024, 4096, 8192)


def main() -> int:
    """Three series and what is claimed of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    some = ends_and_middle if args.quick else lambda values: values
    repeats = 3 if args.quick else 9
    collected = collecting(some(ENVS), repeats)
    drawn = drawing(some(BUFFERS), some(ROW_WIDTHS), repeats)
    updated = updating(some(NETS), some(BATCHES), repeats)
    claims = collecting_claims(collected) | drawing_claims(drawn) | updating_claims(updated)
    return report("scaling", collected | drawn | updated, claims)


def ends_and_middle(values: tuple[int, ...]) -> tuple[int, ...]:
    """Three of them."""
    return values[0], values[len(values) // 2], values[-1]


def collecting(sizes: tuple[int, ...], repeats: int) -> Figures:
    """Microseconds of an env step, policy, env and append included, by the number of envs."""
    spec = probe(EnvConfig(env="HalfCheetah-v5"))
    seconds = {}
    for num_envs in sizes:
        step, close = round_of(num_envs, spec)
        spent = interleaved({"": step}, repeats=repeats, calls=max(2, 512 // num_envs), warmup=2)[""]
        seconds[f"collect, {num_envs} envs"] = spent / num_envs
        close()
    return {name: quartiles_us(spent) for name, spent in seconds.items()}


def round_of(num_envs: int, spec: object) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step of all envs as the collector makes it, and what closes them."""
    env = make_env(EnvConfig(env="HalfCheetah-v5", num_envs=num_envs), seed=0, spec=spec)
    policy = make_policy(
        PolicySpec(algo="sac", env=spec, learner=LearnerConfig(), algo_config=SACConfig()), seed=0, index=0
    )
    ring = Ring(10_000, RowLayout(obs_dim=spec.obs_dim, action_dim=spec.action_dim))
    state = {"obs": env.reset(), "ended": np.zeros(num_envs, np.bool_)}

    def step() -> None:
        action = policy.explore(state["obs"], state["ended"])
        answer = env.step(action)
        ring.append(state["obs"], action, answer, policy_version=1)
        state["obs"], state["ended"] = answer.obs, answer.terminated | answer.truncated

    return step, env.close


def drawing(capacities: tuple[int, ...], widths: tuple[int, ...], repeats: int) -> Figures:
    """Microseconds to draw and gather a batch, by row width and rows of the buffer."""
    sampler = UniformSampler(stream(0, "sample"))
    found = {}
    for width in widths:
        cases = {}
        layout = RowLayout(obs_dim=(width - 9) // 2, action_dim=6)
        for capacity in capacities:
            if 4 * layout.width * capacity > available_bytes() / 4:
                print(f"  left out: {capacity:,} rows of {layout.width} floats, more than a quarter of the free memory")
                continue
            cases[f"draw {BATCH} rows of {width} floats out of {capacity:,}"] = drawer(capacity, layout, sampler)
        found |= {name: quartiles_us(s) for name, s in interleaved(cases, repeats=repeats, calls=40).items()}
    return found


def drawer(capacity: int, layout: RowLayout, sampler: UniformSampler) -> Callable[[], object]:
    """A batch out of a full ring, of which every page has been touched."""
    ring = Ring(capacity, layout)
    ring._shared.rows[:] = 1.0
    ring._shared.versions[:] = 1
    ring._shared.cursor[0] = capacity
    out = np.empty((BATCH, layout.width), np.float32)
    ticks: Iterator[int] = iter(range(10**9))
    return lambda: pack([ring], sampler, out, tick=next(ticks), domain=[(0, capacity)])


def updating(widths: tuple[int, ...], batches: tuple[int, ...], repeats: int) -> Figures:
    """Milliseconds of an update and how much work it does a second, by width at batch 256 and by batch at 2x256."""
    sizes = {f"update, 2x{width}, batch 256": (width, 256) for width in widths}
    sizes |= {f"update, 2x256, batch {batch}": (256, batch) for batch in batches}
    cases = {name: updater(*size) for name, size in sizes.items()}
    seconds = interleaved(cases, repeats=repeats, calls=2, warmup=2)
    return {
        name: quartiles_us(s) | {"gflop_per_s": gflop(*sizes[name]) / float(np.median(s))}
        for name, s in seconds.items()
    }


def updater(width: int, batch: int) -> Callable[[], object]:
    """An eager update of a fresh learner."""
    learner = make_learner("sac", SPEC, LearnerConfig(hidden=(width, width)), SACConfig(), seed=0, device="cpu")
    minibatch = rows(batch, 0)
    return lambda: learner.update(minibatch)


def gflop(width: int, batch: int) -> float:
    """Rough work of an update, as the program's own thread budget counts it."""
    cfg = TrainConfig()
    cfg = replace(cfg, learner=replace(cfg.learner, hidden=(width, width)))
    return update_gflop(replace(cfg, replay=replace(cfg.replay, batch_size=batch)))


def quartiles_us(seconds: np.ndarray) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = np.percentile(1e6 * seconds, [25, 50, 75])
    return {"median_us": float(middle), "q25_us": float(low), "q75_us": float(high)}


def collecting_claims(found: Figures) -> dict[str, tuple[float, float]]:
    """More envs never make an env step dearer."""
    medians = [figures["median_us"] for figures in found.values()]
    return {"an env step with the most envs / with one": (medians[-1] / medians[0], 1.0)}


def drawing_claims(found: Figures) -> dict[str, tuple[float, float]]:
    """By row width: the largest buffer next to the smallest but one, which no cache holds either."""
    claims = {}
    for width in ROW_WIDTHS:
        medians = [f["median_us"] for name, f in found.items() if f" rows of {width} floats" in name]
        if len(medians) == len(BUFFERS):
            claims[f"{width} floats: a batch out of 10,000,000 rows / out of 1,000,000"] = (
                medians[2] / medians[1],
                1.5,
            )
    return claims


def updating_claims(found: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Time grows at most with the work: what is large is done at least as fast as what is small."""
    claims = {}
    for series, small, large in (
        ("width", "2x64, batch 256", "2x1024, batch 256"),
        ("batch", "2x256, batch 64", "2x256, batch 8192"),
    ):
        slow, fast = (found[f"update, {size}"]["gflop_per_s"] for size in (small, large))
        claims[f"work a second, the smallest {series} / the largest"] = (slow / fast, 1.0)
    return claims


if __name__ == "__main__":
    sys.exit(main())

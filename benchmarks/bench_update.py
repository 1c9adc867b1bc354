"""What does compiling an update bring, and what bfloat16 products, by size and threads?

    python benchmarks/bench_update.py [--threads 1 2] [--algos sac td3]

Updates as configs/<algo>.yaml has them, but for the sizes, on HalfCheetah-v5's shapes, nothing else in the process.
Each way of computing takes its turn in every repeat, so that a drift of the machine meets all; compiling is not
counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

import harness
import numpy as np
import torch

from unilab.algos.compiled import Compute, Precision
from unilab.algos.registry import make_learner
from unilab.budget import keep_freed_memory
from unilab.presets import load_preset
from unilab.spec import EnvSpec, Minibatch

SPEC = EnvSpec(env_id="-", obs_dim=17, action_dim=6, action_low=(-1.0,) * 6, action_high=(1.0,) * 6)
WIDTH = 2 * SPEC.obs_dim + SPEC.action_dim + 3
SIZES = {"2x256, batch 256": ((256, 256), 256, 30), "2x512, batch 8192": ((512, 512), 8192, 1)}
WAYS: dict[str, tuple[bool, Precision]] = {
    "eager fp32": (False, "fp32"),
    "compiled fp32": (True, "fp32"),
    "compiled bf16": (True, "bf16"),
}


def main() -> int:
    """Print updates/s and the ratio to eager; write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--algos", nargs="+", default=["sac"])
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    keep_freed_memory()
    results: dict[str, dict[str, float]] = {}
    for threads in args.threads:
        torch.set_num_threads(threads)
        for algo in args.algos:
            for size, (hidden, batch, calls) in SIZES.items():
                cases = {way: updating(algo, hidden, batch, *how) for way, how in WAYS.items()}
                seconds = harness.interleaved(cases, repeats=args.repeats, calls=calls, warmup=4)
                for way, spent in seconds.items():
                    rates = 1.0 / spent
                    results[f"{algo} {size}, threads {threads}, {way}"] = {
                        "updates_per_s": float(np.median(rates)),
                        "q25": float(np.percentile(rates, 25)),
                        "q75": float(np.percentile(rates, 75)),
                        "times_eager": float(np.median(seconds["eager fp32"] / spent)),
                    }
    return harness.report("update", results)


def updating(
    algo: str, hidden: tuple[int, ...], batch: int, compiled: bool, precision: Precision
) -> Callable[[], object]:
    """One update of a fresh learner, on batches that alternate."""
    cfg = load_preset(algo, None)
    learner = make_learner(
        algo,
        SPEC,
        replace(cfg.learner, hidden=hidden, critic_hidden=()),
        cfg.algo_config,
        seed=0,
        device="cpu",
        compute=Compute(compiled, precision, lambda text: print(text, file=sys.stderr)),
    )
    batches = [rows(batch, seed) for seed in range(2)]

    def update() -> None:
        learner.update(batches[learner.updates // 2 % 2])

    return update


def rows(count: int, seed: int) -> Minibatch:
    """Columns of packed rows, as the pipeline hands them over."""
    packed = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    obs, action, reward, next_obs, flags = packed.split((17, 6, 1, 17, 2), dim=1)
    action.tanh_()
    flags.zero_()
    return Minibatch(obs, action, reward[:, 0], next_obs, flags[:, 0], flags[:, 1], obs, next_obs)


if __name__ == "__main__":
    sys.exit(main())

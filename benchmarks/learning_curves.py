"""Return against env steps and wall time, over seeds: trains, evaluates every checkpoint, draws.

    python benchmarks/learning_curves.py --algo sac --env Pendulum-v1 --seeds 1 2 3 --total-steps 20000 --every 2000

Further options go to the trainer. Each run is one `scripts/train.py` in a process of its own; a run that is already
in --out is not trained again. Every checkpoint is evaluated with the deterministic policy on 10 episodes, after the
run and outside its clock. Writes <out>/<name>.json and <out>/<name>.png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unilab.checkpoint import list_checkpoints
from unilab.envs.registry import make_env
from unilab.envs.rollout import evaluate
from unilab.restore import load_policy

REPOSITORY = Path(__file__).resolve().parent.parent
EPISODES = 10


def main() -> int:
    """Train what is missing, evaluate it, draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="sac")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--every", type=int, default=5000, help="env steps between evaluations")
    parser.add_argument("--name", help="name of the results; default: <algo>_<env>")
    parser.add_argument("--out", type=Path, default=Path("runs/curves"))
    parser.add_argument("--goal", type=float, help="a line in the plot")
    args, options = parser.parse_known_args()
    name = args.name or f"{args.algo}_{args.env}"
    torch.set_num_threads(1)
    curves = {}
    for seed in args.seeds:
        run = train_once(args, options, args.out / name / f"s{seed}", seed)
        curves[seed] = evaluate_run(run, seed)
        print(f"{name} seed {seed}: " + " ".join(f"{p['env_steps']}:{p['mean']:.0f}" for p in curves[seed]))
    result = {
        "algo": args.algo,
        "env": args.env,
        "options": options,
        "episodes": EPISODES,
        "final_mean": float(np.mean([curve[-1]["mean"] for curve in curves.values()])),
        "curves": curves,
    }
    (args.out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, args.out / f"{name}.png", args.goal)
    print(f"{name}: final mean over {len(curves)} seeds {result['final_mean']:.1f}")
    return 0


def train_once(args: argparse.Namespace, options: list[str], folder: Path, seed: int) -> Path:
    """Train one seed unless its summary is there; returns the run directory."""
    if not (done := completed(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, str(REPOSITORY / "scripts/train.py"), "--algo", args.algo, "--env", args.env]
        words += ["--seed", str(seed), "--save-every", str(args.every), "--keep", "0", *options]
        with open(folder / "console.txt", "w") as console:
            subprocess.run([*words, "--log-dir", str(folder)], stdout=console, stderr=console, check=True)
        done = completed(folder)
    return done[-1]


def completed(folder: Path) -> list[Path]:
    """Run directories below a folder whose run was completed."""
    summaries = sorted(folder.glob("*/*/*/summary.json"))
    return [path.parent for path in summaries if json.loads(path.read_text())["status"] == "completed"]


def evaluate_run(run: Path, seed: int) -> list[dict[str, Any]]:
    """Mean and deviation of the deterministic policy at every checkpoint of a run."""
    cached = run / "curve.json"
    if cached.exists():
        points: list[dict[str, Any]] = json.loads(cached.read_text())
        return points
    points = []
    for path in list_checkpoints(run / "checkpoints"):
        policy, cfg = load_policy(path)
        env = make_env(replace(cfg.env, num_envs=EPISODES), seed=seed, role="eval")
        returns = evaluate(env, policy.act, EPISODES).returns
        env.close()
        meta = json.loads((path / "meta.json").read_text())
        points.append(
            {
                "env_steps": meta["env_steps"],
                "wall_time_s": meta["wall_time_s"],
                "mean": float(returns.mean()),
                "std": float(returns.std()),
            }
        )
    cached.write_text(json.dumps(points))
    return points


def draw(result: dict[str, Any], path: Path, goal: float | None) -> None:
    """Two panels: return over env steps, return over wall time."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, constrained_layout=True)
    for seed, points in result["curves"].items():
        mean = np.array([p["mean"] for p in points])
        for axis, key in zip(axes, ("env_steps", "wall_time_s"), strict=True):
            axis.plot([p[key] for p in points], mean, marker="o", markersize=3, label=f"seed {seed}")
    for axis, label in zip(axes, ("env steps", "wall time, s"), strict=True):
        if goal is not None:
            axis.axhline(goal, color="grey", linestyle="--", linewidth=1, label="goal")
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(f"return, mean of {result['episodes']} episodes")
    axes[1].legend()
    figure.suptitle(f"{result['algo']} on {result['env']}, deterministic policy")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())

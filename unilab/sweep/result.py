"""What the seeds of a sweep say together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unilab.aggregate import interquartile_mean, interval
from unilab.config import TrainConfig, load_file
from unilab.errors import ConfigError
from unilab.sweep.options import SweepOptions


def done(options: SweepOptions, seed: int) -> float | None:
    """The final evaluation of a seed that has been trained; None: it has not been.

    Raises:
        ConfigError: its directory is taken by a run that is not complete, or was run with other options.
    """
    path, cfg = options.folder / options.run_name(seed), options.config(seed)
    if not path.exists():
        return None
    if not (path / "config.yaml").is_file():
        raise ConfigError(f"{path} is there and is no run; give another --name")
    if load_file(path / "config.yaml", TrainConfig(log_dir=cfg.log_dir)) != cfg:
        raise ConfigError(f"{path} is there already and was run with other options; give another --name")
    summary = read_summary(path)
    score = summary.get("final_eval_mean")
    if summary.get("status") != "completed" or not isinstance(score, int | float):
        raise ConfigError(
            f"{path} is there already and is not complete; `unilab train --resume {path}` goes on with it, then the "
            "sweep can; or give another --name"
        )
    return float(score)


def read_summary(run: Path) -> Mapping[str, Any]:
    """``summary.json`` of a run; empty where there is none."""
    try:
        summary: Mapping[str, Any] = json.loads((run / "summary.json").read_text())
    except (OSError, ValueError):
        return {}
    return summary


def sum_up(options: SweepOptions, scores: Mapping[int, float]) -> dict[str, Any]:
    """The content of the sweep's JSON file.

    Args:
        options: of the sweep.
        scores: mean return of the final evaluation by seed, of those that were trained; at least one.
    """
    values = np.array(list(scores.values()))
    ends = interval(values, interquartile_mean)
    return {
        "name": options.name,
        "env": options.cfg.env.env,
        "algo": options.cfg.algo,
        "options": list(options.words),
        "episodes_per_seed": options.cfg.evaluation.eval_episodes,
        "scores": {str(seed): score for seed, score in scores.items()},
        "missing": [seed for seed in options.seeds if seed not in scores],
        "iqm": float(interquartile_mean(values)),
        "interval_95": None if ends is None else [float(end) for end in ends],
        "mean": float(values.mean()),
        "std": float(values.std()),
        "runs": [str(options.folder / options.run_name(seed)) for seed in scores],
    }


def as_text(result: Mapping[str, Any]) -> str:
    """A line a seed, then what they say together."""
    lines = [f"  seed {seed}: {score:.6g}" for seed, score in result["scores"].items()]
    ends = result["interval_95"]
    around = f"95 % interval {ends[0]:.6g} to {ends[1]:.6g}" if ends else "no interval from one seed"
    return "\n".join(
        [
            f"{result['env']}, {result['algo']}: mean return of the final {result['episodes_per_seed']} episodes",
            *lines,
            f"  IQM {result['iqm']:.6g} ({around}); mean {result['mean']:.6g} +- {result['std']:.4g} "
            f"over {len(result['scores'])} seeds",
        ]
    )

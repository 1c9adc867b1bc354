"""What an evaluation says: for people in two lines, for machines as a line of ``eval.jsonl``."""

from __future__ import annotations

import math
from typing import Any

from unilab.restore import Restored
from unilab.workers import EvaluationResult

_SUCCESS = ("is_success", "success")


def as_json(restored: Restored, result: EvaluationResult) -> dict[str, Any]:
    """The keys of ``eval.jsonl``, and where the weights come from."""
    episodes, scalars = result.episodes, result.scalars()
    rates = [episodes.metrics[name] for name in _SUCCESS if name in episodes.metrics]
    return {
        "env_steps": restored.env_steps,
        "version": restored.version,
        "wall_time_s": restored.wall_time_s,
        "mean_reward": scalars["eval/mean_reward"],
        "std_reward": scalars["eval/std_reward"],
        "mean_ep_length": scalars["eval/mean_ep_length"],
        "success_rate": next((rate for rate in rates if math.isfinite(rate)), None),
        "episodes": len(episodes.returns),
        "returns": episodes.returns.tolist(),
        "lengths": episodes.lengths.tolist(),
        "checkpoint": str(restored.checkpoint),
        "env": restored.cfg.env.env,
        "algo": restored.cfg.algo,
    }


def as_text(restored: Restored, result: EvaluationResult) -> str:
    """Which weights, and how good."""
    said = as_json(restored, result)
    returns = result.episodes.returns
    rate = said["success_rate"]
    return (
        f"{said['env']}, policy of {said['checkpoint']} ({said['env_steps']:,} env steps)\n"
        f"return {said['mean_reward']:.6g} +- {said['std_reward']:.4g} over {said['episodes']} episodes "
        f"(from {returns.min():.6g} to {returns.max():.6g}), {said['mean_ep_length']:.6g} steps each"
        + (f", success rate {rate:.3g}" if rate is not None else "")
        + "\n"
    )

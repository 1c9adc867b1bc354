"""What an evaluation says: for people in two lines, for machines as a line of ``eval.jsonl``."""

from __future__ import annotations

from typing import Any

from unilab.restore import Restored
from unilab.workers import EvaluationResult


def as_json(restored: Restored, result: EvaluationResult) -> dict[str, Any]:
    """The keys of ``eval.jsonl``, and where the weights come from."""
    return {
        "env_steps": restored.env_steps,
        "wall_time_s": restored.wall_time_s,
        **result.record(),
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

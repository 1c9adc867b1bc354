"""All that a run goes on from, as one state: gathered while nothing is in flight, put back before anything starts.

The learner's networks, optimisers and generators; the two newest weight versions, since a chunk that was not granted
yet acts with the one before the last; what the next scalars depend on; episodes that ended in a chunk which is not
trained on yet; and the collectors' envs, noise and running episodes. Rows of the replay are saved beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unilab.algos.learner import Learner
from unilab.computing import state_of
from unilab.config import dump
from unilab.preflight import Plan
from unilab.progress import Progress
from unilab.sampling import Sampling
from unilab.weights import WeightBlock
from unilab.workers.stats import Reports


@dataclass(frozen=True, slots=True)
class Parts:
    """What has a state, on the learner's side."""

    learner: Learner
    weights: WeightBlock
    progress: Progress
    reports: Reports


def gather(
    plan: Plan,
    parts: Parts,
    sampling: Sampling,
    *,
    tick: int,
    counted: Sequence[int],
    finished: Sequence[int],
    starts: int,
    collectors: Sequence[Mapping[str, Any] | None],
) -> dict[str, Any]:
    """A copy of everything but the replay: nested dicts and lists of tensors, numbers and strings.

    Args:
        plan: of the run.
        parts: of the learner's process.
        sampling: its part in drawing.
        tick: last finished.
        counted: newest chunk of each collector that the tick counted.
        finished: newest chunk of each whose rows are all in.
        starts: of collectors so far; the next ones draw seeds of their own.
        collectors: the state of each after that chunk; None where it could not be asked.
    """
    rows = sum(share.watermark(chunk) for share, chunk in zip(plan.schedule.shares, finished, strict=True))
    return learnt(plan, parts.learner, tick) | {
        "counted": list(counted),
        "finished": list(finished),
        "env_steps": rows,
        "learning_starts": plan.cfg.learning_starts,
        "preloaded": plan.schedule.preloaded,
        "starts": starts,
        "weights": as_tensors(parts.weights.snapshots()),
        "progress": parts.progress.state_dict(),
        "stats": as_tensors(parts.reports.state_dict(finished)),
        "collectors": as_tensors(list(collectors)),
        "sampling": as_tensors(sampling.state_dict()),
    }


def learnt(plan: Plan, learner: Learner, tick: int) -> dict[str, Any]:
    """A copy of the learner after a tick, and how it came to be."""
    return networks(learner) | {
        "tick": tick,
        "wall_time_s": plan.wall_s(),
        "config": dump(plan.cfg),
        "compute": state_of(plan.compute),
    }


def networks(learner: Learner) -> dict[str, Any]:
    """A copy of the learner, on the CPU."""
    return {
        "updates": learner.updates,
        # Copies: the entries are views of one buffer, in several dtypes, which torch.save refuses.
        "policy": {name: value.cpu().clone() for name, value in learner.policy_module.state_dict().items()},
        "learner": _on_cpu(learner.state_dict()),
    }


def restore(plan: Plan, parts: Parts, state: Mapping[str, Any]) -> None:
    """Put the learner's side back to where ``gather`` was called, but for the learner itself."""
    parts.weights.restore(as_arrays(state["weights"]))
    parts.progress.load_state_dict(state["progress"], plan.device)
    parts.reports.load_state_dict(as_arrays(state["stats"]))


def collector_states(state: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    """Each collector's part of a saved state, as ``CollectorJob`` takes it."""
    return [None if saved is None else dict(as_arrays(saved)) for saved in state["collectors"]]


def _on_cpu(value: Any) -> Any:
    """Nested dicts with every tensor on the CPU."""
    if isinstance(value, Mapping):
        return {key: _on_cpu(item) for key, item in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) else value


def as_tensors(value: Any) -> Any:
    """Arrays in nested dicts and lists as tensors, which a checkpoint may hold.

    Copies: empty arrays that came from another process all lie at one address, and torch.save refuses what it takes for
    one memory with two types.
    """
    if isinstance(value, Mapping):
        return {key: as_tensors(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_tensors(item) for item in value]
    return torch.tensor(value) if isinstance(value, np.ndarray) else value


def as_arrays(value: Any) -> Any:
    """Tensors in nested dicts and lists as arrays; the memory is shared."""
    if isinstance(value, Mapping):
        return {key: as_arrays(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_arrays(item) for item in value]
    return value.numpy() if isinstance(value, torch.Tensor) else value

"""A run scales rewards by the discounted returns of its own episodes: those that can be read back from its replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from test_lockstep import config
from unilab.checkpoint import load_replay
from unilab.replay import Ring, RowLayout
from unilab.rundir import RunSummary
from unilab.train import train

GAMMA, ENVS = 0.99, 3


def from_replay(checkpoint: Path, layout: RowLayout, skipped: list[int]) -> np.ndarray[Any, Any]:
    """Discounted returns of every env step, by its rows alone; ``skipped``: rows that only stand in for an env step."""
    ring = Ring(5_000, layout)
    load_replay(checkpoint, [ring])
    rows = np.concatenate(list(ring.read(ring.oldest, ring.cursor)))
    ring.free()
    column = layout.columns
    running, seen = np.zeros(ENVS), []
    for number, row in enumerate(rows.astype(np.float64)):
        env = number % ENVS
        if number in skipped:
            running[env] = 0.0
            continue
        running[env] = row[column["reward"]][0] + GAMMA * running[env]
        seen.append(running[env])
        if row[column["terminated"]][0] or row[column["truncated"]][0]:
            running[env] = 0.0
    return np.array(seen)


def learnt_scale(summary: RunSummary) -> dict[str, torch.Tensor]:
    state = torch.load(Path(str(summary.checkpoint)) / "state.pt", weights_only=True)
    scale: dict[str, torch.Tensor] = state["learner"]["reward_scale"]
    return scale


@pytest.mark.parametrize("steps_per_tick", [1, 2])
def test_the_statistics_are_those_of_every_env_step_once_in_its_own_episode(
    tmp_path: Path, steps_per_tick: int
) -> None:
    kwargs = {"length_step": 3, "ends": "mixed"}  # episodes of all lengths and ends; the ring holds them all
    cfg = config(
        tmp_path, total_steps=480, serial=True, num_envs=ENVS, steps_per_tick=steps_per_tick, env_kwargs=kwargs
    )
    summary = train(cfg)
    scale, seen = learnt_scale(summary), from_replay(Path(str(summary.checkpoint)), RowLayout(3, 1), [])

    assert scale["count"].item() == len(seen) == summary.env_steps
    assert scale["mean"].item() == pytest.approx(seen.mean(), rel=1e-9)
    assert scale["m2"].item() == pytest.approx(((seen - seen.mean()) ** 2).sum(), rel=1e-9)
    assert scale["peak"].item() == np.abs(seen).max()
    assert scale["scale"].item() == pytest.approx(1.0 / max(seen.std(), np.abs(seen).max() / 5.0), rel=1e-6)

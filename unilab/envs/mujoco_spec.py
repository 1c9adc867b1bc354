"""What a native task looks like from outside."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from unilab.envs.gymnasium_spaces import ActionScale
from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Task
from unilab.spec import EnvSpec

UNSTABLE = "unstable"
"""Metric of every native task: 1 in a step that MuJoCo gave up on, else 0."""


def task_spec(env_id: str, task: Task, max_episode_steps: int | None) -> EnvSpec:
    """Make one simulation of the task and step it once; the seed is fixed and no run's own."""
    sim = Sim(task.load(), 1, threads=1, fields=task.fields, rngs=[np.random.default_rng(0)])
    scale = action_scale(env_id, task, sim)
    row = np.zeros(1, np.int64)
    task.begin(sim)
    sim.default(row)
    task.reset(sim, 0, sim.rngs[0])
    sim.forward(row)
    groups = task.observe(sim, slice(None))
    before, action = task.before(sim), scale(np.zeros((1, scale.dim), np.float32), 0, 1)
    task.advance(sim, action)
    metrics = task.outcome(sim, action, before).metrics
    return EnvSpec(
        env_id=env_id,
        obs_dim=groups["obs"].shape[1],
        action_dim=scale.dim,
        action_low=scale.low,
        action_high=scale.high,
        critic_dim=groups["critic"].shape[1] if "critic" in groups else 0,
        metric_names=tuple(sorted((*metrics, UNSTABLE))),
        max_episode_steps=max_episode_steps,
        mirror=task.mirror(),
    )


def action_scale(env_id: str, task: Task, sim: Sim) -> ActionScale:
    """[-1, 1] to the task's own action bounds."""
    low, high = task.action_bounds(sim.model)
    return ActionScale(env_id, Box(low, high, dtype=np.float32))

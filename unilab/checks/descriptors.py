"""File descriptors: what a run opens against what its processes may open."""

from __future__ import annotations

import os
import resource

from unilab.checks.finding import Finding, fail, ok, warn
from unilab.config import TrainConfig

_LEARNER = 28
"""What a learner opens beyond what is open when it starts: shared memory, bells, pipes, event files (26 counted)."""
_FURTHER_COLLECTOR = 9
"""What a learner opens for each collector beside the first (8 to 9 counted)."""
_CUDA = 40
_COLLECTOR = 32
"""A collector or evaluator, all that spawn hands over included (22 counted, 31 with env processes)."""
_PER_ENV_PROCESS = 3
"""Pipe, sentinel and what spawn needs for a moment."""
_FOR_ENVS = 64
"""Should be left for what envs and libraries open: meshes, sockets, pipes."""


def descriptors_needed(cfg: TrainConfig, *, cuda: bool) -> int:
    """Estimate of the most descriptors that any process of the run has open at once.

    Args:
        cfg: of the run.
        cuda: the learner is on a GPU, whose driver opens its own.
    """
    further = _FURTHER_COLLECTOR * (cfg.pacing.num_collectors - 1)
    learner = len(os.listdir("/dev/fd")) + _LEARNER + further + (_CUDA if cuda else 0)
    env_processes = max(cfg.env.num_envs, min(10, cfg.evaluation.eval_episodes)) if cfg.env.vec == "async" else 0
    return max(learner, _COLLECTOR + _PER_ENV_PROCESS * env_processes)


def descriptor_finding(needed: int) -> Finding:
    """Compare with the soft limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return ok("descriptors", f"a process needs about {needed}; there is no limit")
    saw = f"a process needs about {needed} file descriptors and may open {limit}"
    advice = f"raise the limit: `ulimit -n {max(1024, 2 * needed)}`"
    if limit < needed:
        return fail("descriptors", saw, advice)
    if limit < needed + _FOR_ENVS:
        return warn("descriptors", f"{saw}, which leaves few for the env", advice)
    return ok("descriptors", saw)

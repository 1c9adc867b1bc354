"""Threads and processes against the cores that this process may use."""

from __future__ import annotations

import os

from unilab import budget
from unilab.checks.finding import Finding, ok, warn
from unilab.config import TrainConfig

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def thread_finding(cfg: TrainConfig, threads: budget.ThreadBudget) -> Finding:
    """Whether more threads would compute than there are cores: barriers then wait for preempted threads."""
    cores = budget.usable_cores()
    saw = f"learner {threads.learner}, collector {threads.collector} on {_describe(cores)}"
    for name in _VARIABLES:
        if (value := os.environ.get(name, "")).isdecimal() and int(value) > cores:
            return warn("threads", f"{name}={value} on {_describe(cores)}", f"unset it, or set it to at most {cores}")
    if cfg.threads != "auto" and cfg.threads > cores:
        return warn("threads", f"--threads {cfg.threads} on {_describe(cores)}", f"use --threads {cores} or auto")
    if cfg.env.vec == "async" and cfg.env.num_envs > cores:
        return warn(
            "threads",
            f"--vec async starts {cfg.env.num_envs} env processes on {_describe(cores)}",
            f"--num-envs {cores} or --vec sync is usually faster",
        )
    return ok("threads", saw)


def _describe(cores: int) -> str:
    there = os.cpu_count() or cores
    what = f"{cores} usable core" + ("s" if cores > 1 else "")
    return what if cores == there else f"{what} (of {there}: affinity or the container's quota)"

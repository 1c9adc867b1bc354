"""Evaluation of one immutable weight snapshot, away from the replay."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_policy
from unilab.envs.bad_values import OnNan, make_rule
from unilab.envs.base import closing_env
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import EpisodeResults, RemembersEnds, evaluate
from unilab.errors import Stopped
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.episodes import scalar_name
from unilab.telemetry.trace import OUTSIDE, Tracer, TraceSpec
from unilab.weights import FlatState, WeightBlock, WeightReader
from unilab.workers.child import Link

MAX_ENVS = 10

COUNTERS = ("asked", "done", "version", "rounds", "stop")
"""Evaluations asked for and done, version of the newest, steps of all its envs (signs of life), whether to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJob:
    """What an evaluator needs; picklable."""

    env: EnvConfig
    policy: PolicySpec
    weights: WeightBlock  # of its own: nobody overwrites what it evaluates
    seed: int
    episodes: int
    max_episode_steps: int
    threads: int
    on_nan: OnNan
    log_dir: Path | None  # of a simulator's own log
    stochastic: bool = False  # act with the exploration noise
    trace: TraceSpec | None = None


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Deterministic evaluation of one version."""

    version: int
    episodes: EpisodeResults

    def scalars(self) -> dict[str, float]:
        """``eval/*`` by name."""
        episodes = self.episodes
        return {
            "eval/mean_reward": float(episodes.returns.mean()),
            "eval/std_reward": float(episodes.returns.std()),
            "eval/mean_ep_length": float(episodes.lengths.mean()),
            **{f"eval/{scalar_name(name)}": value for name, value in episodes.metrics.items()},
        }

    def record(self) -> dict[str, Any]:
        """The evaluation as JSON values, every episode included; returns in env units, lengths in steps."""
        scalars, episodes = self.scalars(), self.episodes
        success = scalars.get("eval/success_rate", math.nan)
        return {
            "version": self.version,
            "mean_reward": scalars["eval/mean_reward"],
            "std_reward": scalars["eval/std_reward"],
            "mean_ep_length": scalars["eval/mean_ep_length"],
            "success_rate": success if math.isfinite(success) else None,
            "episodes": len(episodes.returns),
            "returns": episodes.returns.tolist(),
            "lengths": episodes.lengths.tolist(),
        }


def run_evaluation(job: EvaluationJob, version: int, round_done: Callable[[], None], trace: Tracer) -> EvaluationResult:
    """Play ``job.episodes`` episodes on evaluation seeds of the run.

    Whoever evaluates calls this, in whatever process, which is why all get the same returns.

    Args:
        job: what to evaluate, and how.
        version: of the weights, which the job's block holds.
        round_done: called after each step of all envs.
        trace: spans ``fetch``, ``make_envs``, ``evaluate``; ``act`` and ``env_step`` where that tick is recorded.
    """
    policy = make_policy(job.policy, seed=job.seed, index=0)
    with trace.span("fetch", version=version):
        WeightReader(job.weights, FlatState(policy.module)).fetch(version)
    cfg = replace(job.env, num_envs=min(MAX_ENVS, job.episodes))
    with trace.span("make_envs"):
        made = make_env(cfg, seed=job.seed, role="eval", spec=job.policy.env, threads=job.threads, log_dir=job.log_dir)
    with closing_env(made) as env, trace.span("evaluate", version=version):
        watched = RemembersEnds(env)
        trace.at(version)
        episodes = evaluate(
            watched,
            (lambda obs: policy.explore(obs, watched.ended)) if job.stochastic else policy.act,
            job.episodes,
            max_episode_steps=job.max_episode_steps,
            round_done=round_done,
            on_bad=make_rule(job.on_nan, env, 0, _say),
            span=trace.span,
        )
        trace.at(OUTSIDE)
    return EvaluationResult(version, episodes)


def _say(what: str) -> None:
    sys.stderr.write(f"evaluator: {what}\n")
    sys.stderr.flush()


def evaluator_main(link: Link, job: EvaluationJob, counters: Counters, bell: Bell) -> None:
    """Entry of an evaluator process: one evaluation each time that it is asked for one.

    Args:
        link: to the learner.
        job: what to evaluate, and how.
        counters: see ``COUNTERS``.
        bell: its own.
    """
    torch.set_num_threads(job.threads)
    waiter = Waiter(bell, lambda: bool(counters["stop"]), [link.parent()])
    rounds = itertools.count(1)

    def round_done() -> None:
        counters["rounds"] = next(rounds)
        if counters["stop"]:
            raise Stopped("stopped in the middle of an evaluation")

    trace = Tracer("evaluator-0", job.trace)
    try:
        while True:
            with trace.span("wait_version"):
                waiter.wait(lambda: counters["asked"] > counters["done"], "weights to evaluate")
            result = run_evaluation(job, counters["version"], round_done, trace)
            counters["done"] += 1
            link.send("result", result)
    finally:
        trace.close()

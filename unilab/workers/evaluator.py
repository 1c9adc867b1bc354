"""Evaluation of one immutable weight snapshot, away from the replay."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_policy
from unilab.envs.bad_values import OnNan, make_rule
from unilab.envs.base import closing_env
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import EpisodeResults, RemembersEnds, evaluate
from unilab.shm import Counters
from unilab.weights import FlatState, WeightBlock, WeightReader
from unilab.workers.child import Link

MAX_ENVS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJob:
    """What an evaluator needs; picklable."""

    env: EnvConfig
    policy: PolicySpec
    weights: WeightBlock  # of its own: nobody overwrites what it evaluates
    version: int
    seed: int
    episodes: int
    max_episode_steps: int
    threads: int
    on_nan: OnNan
    log_dir: Path | None  # of a simulator's own log
    stochastic: bool = False  # act with the exploration noise


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
            **{f"eval/{name}": value for name, value in episodes.metrics.items()},
        }


def run_evaluation(job: EvaluationJob, round_done: Callable[[], None]) -> EvaluationResult:
    """Play ``job.episodes`` episodes on evaluation seeds of the run.

    Whoever evaluates calls this, in whatever process, which is why all get the same returns.

    Args:
        job: what to evaluate.
        round_done: called after each step of all envs.
    """
    policy = make_policy(job.policy, seed=job.seed, index=0)
    WeightReader(job.weights, FlatState(policy.module)).fetch(job.version)
    cfg = replace(job.env, num_envs=min(MAX_ENVS, job.episodes))
    made = make_env(cfg, seed=job.seed, role="eval", spec=job.policy.env, threads=job.threads, log_dir=job.log_dir)
    with closing_env(made) as env:
        watched = RemembersEnds(env)
        episodes = evaluate(
            watched,
            (lambda obs: policy.explore(obs, watched.ended)) if job.stochastic else policy.act,
            job.episodes,
            max_episode_steps=job.max_episode_steps,
            round_done=round_done,
            on_bad=make_rule(job.on_nan, env, 0, _say),
        )
    return EvaluationResult(job.version, episodes)


def _say(what: str) -> None:
    sys.stderr.write(f"evaluator: {what}\n")
    sys.stderr.flush()


def evaluator_main(link: Link, job: EvaluationJob, counters: Counters) -> None:
    """Entry of an evaluator process; ``counters["rounds"]`` are its signs of life."""
    torch.set_num_threads(job.threads)
    rounds = itertools.count(1)

    def round_done() -> None:
        counters["rounds"] = next(rounds)

    link.send("result", run_evaluation(job, round_done))

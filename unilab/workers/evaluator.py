"""Evaluation of one immutable weight snapshot, away from the replay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_policy
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import EpisodeResults, evaluate
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
    threads: int


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


def run_evaluation(job: EvaluationJob) -> EvaluationResult:
    """Play ``job.episodes`` episodes with the deterministic policy, on evaluation seeds of the run."""
    policy = make_policy(job.policy, seed=job.seed, index=0)
    WeightReader(job.weights, FlatState(policy.module)).fetch(job.version)
    cfg = replace(job.env, num_envs=min(MAX_ENVS, job.episodes))
    env = make_env(cfg, seed=job.seed, role="eval", spec=job.policy.env)
    try:
        return EvaluationResult(job.version, evaluate(env, policy.act, job.episodes))
    finally:
        env.close()


def evaluator_main(link: Link, job: EvaluationJob) -> None:
    """Entry of an evaluator process."""
    torch.set_num_threads(job.threads)
    link.send("result", run_evaluation(job))

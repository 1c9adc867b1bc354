"""Episodes of a model without exploration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unilab.algos.base import Policy
from unilab.config import TrainConfig
from unilab.envs.base import closing_env
from unilab.envs.registry import make_env
from unilab.envs.rollout import evaluate
from unilab.errors import ConfigError
from unilab.spec import EnvSpec
from unilab.workers.evaluator import MAX_ENVS


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Finished episodes."""

    mean_reward: float
    std_reward: float
    returns: NDArray[np.float64]  # [episodes], env units
    lengths: NDArray[np.int64]  # [episodes], env steps
    metrics: dict[str, float]  # the env's own, means over episodes


def evaluate_policy(cfg: TrainConfig, spec: EnvSpec, policy: Policy, episodes: int) -> Evaluation:
    """Play on the run's evaluation starts, in this process: what the run's own evaluation of these weights gave.

    Raises:
        ConfigError: no positive number of episodes.
        NonFinite: the env gave a NaN or an infinity.
    """
    if not isinstance(episodes, int | np.integer) or isinstance(episodes, bool) or episodes < 1:
        raise ConfigError(f"episodes={episodes!r} must be a whole number from 1 on")
    envs = replace(cfg.env, num_envs=min(MAX_ENVS, episodes))
    with closing_env(make_env(envs, seed=cfg.seed, role="eval", spec=spec)) as env:
        played = evaluate(env, policy.act, episodes, max_episode_steps=cfg.evaluation.eval_max_steps)
    mean, std = float(played.returns.mean()), float(played.returns.std())
    return Evaluation(mean, std, played.returns, played.lengths, played.metrics)

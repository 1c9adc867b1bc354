"""Algorithms by name; a new one is a file, a line here, a YAML and a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from unilab.algos.base import LearnerConfig, Policy, PolicySpec
from unilab.algos.compiled import EAGER, Compute
from unilab.algos.crossq import CrossQ, CrossQConfig, crossq_policy
from unilab.algos.fastsac import FastSAC, FastSACConfig, fastsac_policy
from unilab.algos.fasttd3 import FastTD3, FastTD3Config, fasttd3_policy
from unilab.algos.flashsac import FlashSAC, FlashSACConfig, flashsac_policy
from unilab.algos.learner import Learner, Rule
from unilab.algos.sac import SAC, SACConfig, sac_policy
from unilab.algos.schedule import LearningRate
from unilab.algos.td3 import TD3, TD3Config, td3_policy
from unilab.errors import ConfigError, nearest
from unilab.nets.unit_body import EXPANSION
from unilab.spec import EnvSpec


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What an algorithm is made of."""

    config: type
    rule: Callable[..., Rule]
    policy: Callable[..., Policy]
    without: tuple[str, ...] = ()  # fields of LearnerConfig that it does not read
    expansion: int = 0  # hidden layers are residual blocks with inner layers so many times as wide; 0: plain layers

    def inner_weights(self, widths: tuple[int, ...]) -> int:
        """Weights between the hidden layers of one net."""
        if self.expansion:
            return sum(2 * self.expansion * width * width for width in widths)
        return sum(a * b for a, b in pairwise(widths))


ALGORITHMS = {
    "sac": Algorithm(SACConfig, SAC, sac_policy),
    "td3": Algorithm(TD3Config, TD3, td3_policy),
    "crossq": Algorithm(CrossQConfig, CrossQ, crossq_policy, without=("tau",)),
    "fasttd3": Algorithm(FastTD3Config, FastTD3, fasttd3_policy),
    "fastsac": Algorithm(FastSACConfig, FastSAC, fastsac_policy),
    "flashsac": Algorithm(FlashSACConfig, FlashSAC, flashsac_policy, expansion=EXPANSION),
}


def make_learner(
    algo: str,
    env: EnvSpec,
    cfg: LearnerConfig,
    algo_config: Any,
    *,
    seed: int,
    device: torch.device | str,
    total_updates: int = 0,
    compute: Compute = EAGER,
) -> Learner:
    """Build a learner; the same arguments always give the same networks and noise.

    Args:
        algo: a name in ``ALGORITHMS``.
        env: shapes of observations and actions.
        cfg: hyperparameters that every algorithm has.
        algo_config: instance of ``ALGORITHMS[algo].config``.
        seed: of the run.
        device: where to learn.
        total_updates: of the whole run, which a learning-rate schedule follows.
        compute: whether updates are compiled, and their precision.

    Raises:
        ConfigError: no such algorithm, or another algorithm's config.
    """
    entry = _checked(algo, algo_config)
    place = torch.device(device)
    rate = LearningRate(cfg, total_updates, place)
    rule = entry.rule(env, cfg, algo_config, seed=seed, device=place, rate=rate)
    return Learner(rule, cfg, seed=seed, device=place, rate=rate, compute=compute)


def make_policy(spec: PolicySpec, *, seed: int, index: int) -> Policy:
    """Build the policy of collector number ``index``; its networks start as the learner's do.

    Raises:
        ConfigError: no such algorithm, or another algorithm's config.
    """
    policy = _checked(spec.algo, spec.algo_config).policy(spec, seed=seed, index=index)
    policy.at(spec.progress)
    return policy


def _checked(algo: str, algo_config: Any) -> Algorithm:
    if algo not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ConfigError(f"algo={algo!r} is unknown; there are {known}{nearest(algo, ALGORITHMS)}")
    entry = ALGORITHMS[algo]
    if not isinstance(algo_config, entry.config):
        raise ConfigError(f"algo={algo!r} takes a {entry.config.__name__}, not a {type(algo_config).__name__}")
    return entry

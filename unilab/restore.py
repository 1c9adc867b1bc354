"""From a checkpoint back to a policy that acts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unilab.algos.base import Policy, PolicySpec
from unilab.algos.registry import make_policy
from unilab.checkpoint import load_checkpoint
from unilab.config import TrainConfig, overlay
from unilab.envs.registry import probe
from unilab.spec import EnvSpec


def load_policy(checkpoint: Path, *, seed: int | None = None) -> tuple[Policy, TrainConfig]:
    """The policy of a checkpoint directory, on the CPU, and the config that it was trained with.

    ``policy.act({"obs": obs})`` takes raw observations [n, obs_dim] float32 and returns actions [n, action_dim] in
    [-1, 1] per dimension, between the env's bounds.

    Args:
        checkpoint: the directory.
        seed: of the noise of ``policy.explore``; None: the run's.

    Raises:
        ConfigError: the checkpoint cannot be read.
        EnvError: its env cannot be made here.
    """
    state = load_checkpoint(checkpoint)
    cfg = overlay(TrainConfig(), yaml.safe_load(state["config"]), str(checkpoint))
    return make_policy_of(cfg, probe(cfg.env), state, seed=seed), cfg


def make_policy_of(cfg: TrainConfig, env: EnvSpec, state: Mapping[str, Any] | None, *, seed: int | None) -> Policy:
    """The policy of a config, on the CPU.

    Args:
        cfg: of the run.
        env: ``probe(cfg.env)``.
        state: of a checkpoint; None: a policy that has learnt nothing yet.
        seed: of the noise of ``policy.explore``; None: the run's.
    """
    spec = PolicySpec(algo=cfg.algo, env=env, learner=cfg.learner, algo_config=cfg.algo_config)
    policy = make_policy(spec, seed=cfg.seed if seed is None else seed, index=0)
    if state is not None:
        policy.module.load_state_dict(state["policy"])
    return policy

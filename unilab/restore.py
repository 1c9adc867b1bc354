"""From a checkpoint back to a policy that acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from unilab.algos.base import Policy, PolicySpec
from unilab.algos.registry import make_policy
from unilab.checkpoint import load_checkpoint
from unilab.config import TrainConfig, overlay
from unilab.envs.registry import probe
from unilab.spec import EnvSpec


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint says about a policy, and the policy."""

    checkpoint: Path
    policy: Policy  # on the CPU
    spec: PolicySpec
    cfg: TrainConfig  # that it was trained with
    version: int  # of the weights
    env_steps: int  # that the run had made when it was saved
    wall_time_s: float  # of the run until then


def load_policy(checkpoint: Path, *, seed: int | None = None) -> tuple[Policy, TrainConfig]:
    """The policy of a checkpoint directory, on the CPU, and the config that it was trained with.

    ``policy.act({"obs": obs})`` takes raw observations [n, obs_dim] float32 and returns actions [n, action_dim] in
    [-1, 1] per dimension, between the env's bounds. With a privileged encoder it takes the env's ``critic`` group too.

    Args:
        checkpoint: the directory.
        seed: of the noise of ``policy.explore``; None: the run's.

    Raises:
        ConfigError: the checkpoint cannot be read.
        EnvError: its env cannot be made here.
    """
    restored = restore_policy(checkpoint, seed=seed)
    return restored.policy, restored.cfg


def restore_policy(checkpoint: Path, *, seed: int | None = None) -> Restored:
    """As ``load_policy``, with all that the checkpoint says about it."""
    state = load_checkpoint(checkpoint)
    cfg = overlay(TrainConfig(), yaml.safe_load(state["config"]), str(checkpoint))
    env = probe(cfg.env)
    return Restored(
        checkpoint=checkpoint,
        policy=make_policy_of(cfg, env, state, seed=seed),
        spec=_spec(cfg, env, state),
        cfg=cfg,
        version=int(state["tick"]),
        env_steps=int(state["env_steps"]),
        wall_time_s=float(state["wall_time_s"]),
    )


def make_policy_of(cfg: TrainConfig, env: EnvSpec, state: Mapping[str, Any], *, seed: int | None) -> Policy:
    """The policy of a config, on the CPU.

    Args:
        cfg: of the run.
        env: ``probe(cfg.env)``.
        state: of a checkpoint.
        seed: of the noise of ``policy.explore``; None: the run's.
    """
    policy = make_policy(_spec(cfg, env, state), seed=cfg.seed if seed is None else seed, index=0)
    policy.module.load_state_dict(state["policy"])
    return policy


def _spec(cfg: TrainConfig, env: EnvSpec, state: Mapping[str, Any]) -> PolicySpec:
    """Of a policy that explores as the run did when it was saved."""
    tick = int(state["tick"])
    progress = cfg.schedule().progress(tick + 1) if tick else 0.0  # before any tick, no schedule has to be possible
    return PolicySpec(algo=cfg.algo, env=env, learner=cfg.learner, algo_config=cfg.algo_config, progress=progress)

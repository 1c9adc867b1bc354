"""What is published of an algorithm: normaliser and actor, with a privileged encoder where one is asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch

from unilab.algos.base import LearnerConfig
from unilab.errors import ConfigError
from unilab.nets.actor import Actor, NormalizedActor
from unilab.nets.encoder import Encoder, EncodingActor
from unilab.nets.normalizer import make_norm
from unilab.nets.sight import SeesAll, SeesObs, Sight
from unilab.spec import EnvSpec


def make_policy_module(
    env: EnvSpec, cfg: LearnerConfig, init: torch.Generator, make_actor: Callable[[int], Actor]
) -> NormalizedActor:
    """An algorithm's actor behind its normaliser.

    Args:
        env: shapes of observations and actions.
        cfg: says whether there is an encoder, and whether observations are normalised.
        init: source of the initial weights; the actor's are drawn first.
        make_actor: the actor for rows of that width.

    Raises:
        ConfigError: an encoder is asked for and the env has nothing for it.
    """
    sight, widths = make_sight(env, cfg), cfg.privileged_encoder
    norm = make_norm(sight.dim, enabled=cfg.norm_obs)
    if not widths:
        return NormalizedActor(norm, make_actor(env.obs_dim), sight)
    actor = make_actor(env.obs_dim + widths[-1])
    return NormalizedActor(norm, EncodingActor(env.obs_dim, Encoder(env.privileged_dim, widths, init), actor), sight)


def make_sight(env: EnvSpec, cfg: LearnerConfig) -> Sight:
    """What the actor sees; errors as ``make_policy_module``."""
    if not cfg.privileged_encoder:
        return SeesObs(env.obs_dim)
    if not env.privileged_dim:
        raise ConfigError(
            f"privileged_encoder={cfg.privileged_encoder} would have no effect with {env.env_id}, where critics see "
            "no more than the actor; name keys of its Dict observation with --critic-keys, or leave it out"
        )
    return SeesAll(env.obs_dim + env.privileged_dim, env.obs_dim)

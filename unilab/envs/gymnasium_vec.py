"""The gymnasium backend: any id, in one loop (sync) or one process per env (async)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from unilab.envs.base import BatchEnv, closing_env
from unilab.envs.gymnasium_async import make_async
from unilab.envs.gymnasium_info import metric_names
from unilab.envs.gymnasium_make import make_one
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.envs.gymnasium_spec import check_same, spec_of
from unilab.envs.gymnasium_sync import SyncEnv
from unilab.envs.module_id import one_line
from unilab.envs.mujoco_log import log_to
from unilab.errors import EnvError
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig, Host


def probe(cfg: EnvConfig) -> EnvSpec:
    """See ``registry.probe``; the one step takes the middle action."""
    env = make_one(cfg)
    log_to(None)
    with closing_env(env):
        layout = ObsLayout(cfg.env, env.observation_space, cfg.critic_keys)
        scale = ActionScale(cfg.env, env.action_space, cfg.action_bound)
        names = _first_step(cfg.env, env, layout, scale)
        limit = env.spec.max_episode_steps if env.spec is not None else None
        return spec_of(cfg.env, layout, scale, names, limit)


def make(cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec | None, host: Host) -> BatchEnv:
    """See ``registry.make_env``; ``auto`` is sync, which was faster for every MuJoCo task measured."""
    spec = spec or probe(cfg)
    if cfg.vec == "async":
        return make_async(cfg, seeds=seeds, first_index=first_index, spec=spec, log_dir=host.log_dir)
    with ExitStack() as stack:
        envs: list[gym.Env[Any, Any]] = []
        for _ in seeds:
            envs.append(make_one(cfg))
            stack.callback(envs[-1].close)
        log_to(host.log_dir)
        layout = ObsLayout(cfg.env, envs[0].observation_space, cfg.critic_keys)
        scale = ActionScale(cfg.env, envs[0].action_space, cfg.action_bound)
        check_same(spec, layout, scale)
        stack.pop_all()  # all is well: SyncEnv closes them
    return SyncEnv(envs, layout, scale, spec, seeds=seeds, first_index=first_index)


def _first_step(env_id: str, env: gym.Env[Any, Any], layout: ObsLayout, scale: ActionScale) -> tuple[str, ...]:
    """Reset and step once, checking both observations; returns the metric names."""
    # A fixed generator makes the probe repeatable without handing out a seed, which would be a run's own.
    with contextlib.suppress(AttributeError):
        env.unwrapped.np_random = np.random.default_rng(0)
    row = layout.empty(1)
    doing = "reset"
    try:
        obs, reset_info = env.reset()
        layout.write(row[0], obs)
        doing = "step"
        obs, _, _, _, info = env.step(scale(np.zeros((1, scale.dim), np.float32), 0, 1)[0, ...])
        layout.write(row[0], obs)
    except Exception as error:
        raise EnvError(f"{env_id}: its first {doing} raised {one_line(error)}") from error
    return metric_names(reset_info, info)

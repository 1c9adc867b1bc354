"""Whether the exported file acts as the run's own code does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from unilab.envs.base import closing_env
from unilab.envs.gymnasium_spaces import ActionScale
from unilab.envs.registry import make_env
from unilab.errors import UnilabError
from unilab.restore import Restored
from unilab.spec import EnvSpec

OBSERVATIONS = 256
TOLERANCE = 1e-5
"""Of half of an action's range."""

_ENVS = 4


def observations(restored: Restored) -> NDArray[np.float32]:
    """What the policy sees while it explores its own env; [256, obs_dim]."""
    cfg = replace(restored.cfg.env, num_envs=_ENVS)
    seen = []
    with closing_env(make_env(cfg, seed=restored.cfg.seed, role="eval", spec=restored.spec.env)) as env:
        obs, ended = env.reset(), np.zeros(_ENVS, np.bool_)
        for _ in range(OBSERVATIONS // _ENVS):
            seen.append(obs["obs"].copy())
            step = env.step(restored.policy.explore(obs, ended))
            obs, ended = step.obs, step.terminated | step.truncated
    return np.concatenate(seen)


def check_parity(
    act: Callable[[NDArray[np.float32]], NDArray[np.float32]], restored: Restored, obs: NDArray[np.float32]
) -> float:
    """Compare an exported policy with the run's own: its actions as the env gets them.

    Args:
        act: the exported one, [n, obs_dim] to [n, action_dim] in env units.
        restored: the run's.
        obs: [n, obs_dim].

    Returns:
        The largest difference, as a share of half of the action's range.

    Raises:
        UnilabError: it is above ``TOLERANCE``, in one batch or row by row, or not a number.
    """
    env = restored.spec.env
    wanted = env_units(env)(restored.policy.act({"obs": obs}), 0, 0)
    half = (np.array(env.action_high) - np.array(env.action_low)) / 2
    single = np.concatenate([act(obs[i : i + 1]) for i in range(len(obs))])
    worst = max(float((np.abs(got - wanted) / half).max()) for got in (act(obs), single))
    if not worst <= TOLERANCE:
        raise UnilabError(
            f"the exported policy differs from the run's by {worst:.3g} of half of an action's range, more than "
            f"{TOLERANCE:g}, on {len(obs)} observations as large as {float(np.abs(obs).max()):.3g} (sums of large "
            "numbers depend on their order: --norm-obs keeps them small); nothing was written"
        )
    return worst


def env_units(env: EnvSpec) -> ActionScale:
    """[-1, 1] to the env's units, as its adapter does it."""
    low, high = (np.array(bound, np.float32) for bound in (env.action_low, env.action_high))
    return ActionScale(env.env_id, Box(low, high, dtype=np.float32))

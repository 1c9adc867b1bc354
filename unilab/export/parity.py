"""Whether the exported file acts as the run's own code does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gymnasium.spaces import Box

from unilab.envs.base import Groups, closing_env
from unilab.envs.gymnasium_spaces import ActionScale
from unilab.envs.registry import make_env
from unilab.errors import UnilabError
from unilab.export.onnx_file import Act
from unilab.restore import Restored
from unilab.spec import EnvSpec

OBSERVATIONS = 256
TOLERANCE = 1e-5
"""Of half of an action's range."""

_ENVS = 4


def observations(restored: Restored) -> Groups:
    """What there is to see while the policy explores its own env: 256 rows of each observation group."""
    cfg = replace(restored.cfg.env, num_envs=_ENVS)
    seen: list[Groups] = []
    with closing_env(make_env(cfg, seed=restored.cfg.seed, role="eval", spec=restored.spec.env)) as env:
        obs, ended = env.reset(), np.zeros(_ENVS, np.bool_)
        for _ in range(OBSERVATIONS // _ENVS):
            seen.append({name: rows.copy() for name, rows in obs.items()})
            step = env.step(restored.policy.explore(obs, ended))
            obs, ended = step.obs, step.terminated | step.truncated
    return {name: np.concatenate([groups[name] for groups in seen]) for name in seen[0]}


def check_parity(act: Act, restored: Restored, obs: Groups) -> float:
    """Compare an exported policy with the run's own: its actions as the env gets them.

    Args:
        act: the exported one.
        restored: the run's.
        obs: observation groups, n rows each.

    Returns:
        The largest difference, as a share of half of the action's range.

    Raises:
        UnilabError: it is above ``TOLERANCE``, in one batch or row by row, or not a number.
    """
    env = restored.spec.env
    wanted = env_units(env)(restored.policy.act(obs), 0, 0)
    inputs = policy_inputs(restored, obs)
    half = (np.array(env.action_high) - np.array(env.action_low)) / 2
    ones = ({name: rows[i : i + 1] for name, rows in inputs.items()} for i in range(len(wanted)))
    single = np.concatenate([act(one) for one in ones])
    worst = max(float((np.abs(got - wanted) / half).max()) for got in (act(inputs), single))
    if not worst <= TOLERANCE:
        largest = max(float(np.abs(rows).max()) for rows in inputs.values())
        raise UnilabError(
            f"the exported policy differs from the run's by {worst:.3g} of half of an action's range, more than "
            f"{TOLERANCE:g}, on {len(wanted)} observations as large as {largest:.3g} (sums of large "
            "numbers depend on their order: --norm-obs keeps them small); nothing was written"
        )
    return worst


def input_widths(restored: Restored) -> dict[str, int]:
    """Inputs of the exported policy: obs and, where the policy encodes it, the privileged vector."""
    env = restored.spec.env
    encodes = bool(restored.cfg.learner.privileged_encoder)
    return {"obs": env.obs_dim} | ({"privileged": env.privileged_dim} if encodes else {})


def policy_inputs(restored: Restored, obs: Groups) -> Groups:
    """Those inputs out of observation groups."""
    widths = input_widths(restored)
    split = np.split(restored.policy.module.sight.of_groups(obs).numpy(), [widths["obs"]], axis=1)
    return {name: np.ascontiguousarray(rows) for name, rows in zip(widths, split, strict=False)}


def env_units(env: EnvSpec) -> ActionScale:
    """[-1, 1] to the env's units, as its adapter does it."""
    low, high = (np.array(bound, np.float32) for bound in (env.action_low, env.action_high))
    return ActionScale(env.env_id, Box(low, high, dtype=np.float32))

"""Values are finite or named (docs/design.md, contract 12): the check at the env's border."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.errors import NonFinite


def check_finite(step: EnvStep, first_env_index: int, steps: NDArray[np.int64]) -> None:
    """Raise for the first NaN or infinity of a step; a few numpy calls when there is none.

    Args:
        step: what ``BatchEnv.step`` returned.
        first_env_index: run-wide index of the step's first env.
        steps: [n] number of this step for each env, counted over the run from 1.

    Raises:
        NonFinite: names the array, its column, the env's index and that env's step.
    """
    _check_groups(step.next_obs, "", first_env_index, steps)
    if not all_finite(step.reward):
        env = _first_bad(step.reward[:, None])[0]
        raise NonFinite(_message(f"reward = {step.reward[env]}", first_env_index + env, steps[env]))
    # Rows of envs that go on are copies of next_obs; this finds a bad reset observation.
    _check_groups(step.obs, "reset ", first_env_index, steps)


def check_finite_reset(obs: Groups, first_env_index: int, steps: NDArray[np.int64]) -> None:
    """The same for what ``BatchEnv.reset`` returned; ``steps`` [n] counts the steps taken before it."""
    _check_groups(obs, "reset ", first_env_index, steps)


def bad_rows(step: EnvStep) -> NDArray[np.bool_]:
    """[n] which envs' reward or successor is not finite: the transitions that must not be stored."""
    return bad_envs(step.next_obs) | ~np.isfinite(step.reward)


def bad_envs(obs: Groups) -> NDArray[np.bool_]:
    """[n] which envs' observations are not finite."""
    bad: NDArray[np.bool_] = ~np.logical_and.reduce([np.isfinite(rows).all(axis=1) for rows in obs.values()])
    return bad


def check_finite_action(action: NDArray[np.float32], version: int, first_env_index: int) -> None:
    """Raise for the first NaN or infinity of a policy's actions [n, action_dim], before any env gets it.

    Args:
        action: of all envs.
        version: of the weights that chose it.
        first_env_index: run-wide index of the first env.

    Raises:
        NonFinite: names the dimension, the env and the weights.
    """
    if not all_finite(action):
        env, dimension = _first_bad(action)
        raise NonFinite(
            f"action[{dimension}] = {action[env, dimension]} for env index {first_env_index + env}, chosen with weight "
            f"version {version}: the learner diverged; a lower learning rate, --norm-obs or a smaller reward scale "
            "often helps"
        )


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Cast to float32; what is beyond its range becomes an infinity, which the check of the step then finds."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def all_finite(values: NDArray[np.float32]) -> bool:
    """Whether there is no NaN and no infinity."""
    # A finite sum of squares has finite terms, in half the time of isfinite().all(). Large numbers may
    # overflow it, so only the slow answer counts against the env.
    return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())


def _check_groups(groups: Groups, prefix: str, first_env_index: int, steps: NDArray[np.int64]) -> None:
    for group, rows in groups.items():
        if not all_finite(rows):
            env, column = _first_bad(rows)
            name = f"{prefix}{group}[{column}] = {rows[env, column]}"
            raise NonFinite(_message(name, first_env_index + env, steps[env]))


def _first_bad(rows: NDArray[np.float32]) -> tuple[int, int]:
    env, column = np.argwhere(~np.isfinite(rows))[0]
    return int(env), int(column)


def _message(name: str, env: int, step: np.int64) -> str:
    beyond = "" if name.endswith("nan") else ", or beyond float32's range (3.4e38),"
    return f"{name} is not finite{beyond} in env index {env}, step {step}; a row with it is never stored"

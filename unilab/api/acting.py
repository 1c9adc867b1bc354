"""Observations as the env gives them to actions as the env takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray

from unilab.config import TrainConfig
from unilab.envs.base import closing_env
from unilab.envs.choice import choose
from unilab.envs.finite import all_finite, to_float32
from unilab.envs.gymnasium_make import make_one
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout, Part
from unilab.errors import ConfigError, EnvError, NonFinite, nearest
from unilab.preflight import look_at_env
from unilab.restore import make_policy_of
from unilab.spec import EnvSpec
from unilab.watchdog import raising_deadline


class Acting:
    """A policy behind the spaces of its env.

    Args:
        cfg: of the run.
        state: of its checkpoint.

    Raises:
        EnvError: the env cannot be made here.
        ConfigError: the networks are of another env.
    """

    def __init__(self, cfg: TrainConfig, state: Mapping[str, Any]) -> None:
        self.spec = look_at_env(cfg, raising_deadline)
        try:
            self.policy = make_policy_of(cfg, self.spec, state, seed=None)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"these networks do not fit {cfg.env.env}: {reason}") from error
        encodes = bool(cfg.learner.privileged_encoder)
        self._layout, self._scale = _spaces(cfg, self.spec, encodes)
        self._width = self._layout.width if encodes else self.spec.obs_dim
        self._parts = [part for part in self._layout.parts if part.columns.stop <= self._width]

    def predict(self, obs: Any, ended: Any, *, deterministic: bool) -> NDArray[Any]:
        """The action for one observation, or the actions [n, ...] for a batch.

        Args:
            obs: of the env's observation space, or n of them; keys that only critics see may be missing, unless the
                policy encodes them. Of a native task with an encoder: its groups, ``obs`` and ``critic``.
            ended: envs [n] whose episode has just begun; None: none has.
            deterministic: without exploration.

        Raises:
            EnvError: another shape, or a key is missing.
            NonFinite: the observation holds a NaN or an infinity.
        """
        rows, single = self._rows(obs)
        if not all_finite(rows):
            column = int(np.argwhere(~np.isfinite(rows))[0][1])
            raise NonFinite(f"observation[{column}] is a NaN or an infinity")
        groups = _groups(rows, self.spec)
        begun = np.zeros(len(rows), np.bool_) if ended is None else np.atleast_1d(np.asarray(ended, np.bool_))
        if begun.shape != (len(rows),):
            raise ConfigError(f"episode_start has shape {begun.shape}; it must be ({len(rows)},), one flag an env")
        normal = self.policy.act(groups) if deterministic else self.policy.explore(groups, begun)
        action = self._scale(normal, 0, 0)
        return action[0] if single else action

    def _rows(self, obs: Any) -> tuple[NDArray[np.float32], bool]:
        """Observations as [n, columns that the policy needs], and whether it was a single one."""
        values = [(part, _value(obs, part)) for part in self._parts]
        lead = {_lead(part, value) for part, value in values}
        if len(lead) > 1:
            raise EnvError(f"the observation's parts have different batch shapes: {sorted(lead)}")
        single = lead == {()}
        rows = self._layout.empty(1 if single else lead.pop()[0])
        for part, value in values:
            rows[:, part.columns] = value.reshape(len(rows), part.columns.stop - part.columns.start)
        return to_float32(np.ascontiguousarray(rows[:, : self._width])), single


def _groups(rows: NDArray[np.float32], spec: EnvSpec) -> dict[str, NDArray[np.float32]]:
    """Rows as observation groups; the last ``critic_dim`` columns are the critic group, where there are so many."""
    obs = np.ascontiguousarray(rows[:, : spec.obs_dim])
    return {"obs": obs} if rows.shape[1] == spec.obs_dim else {"obs": obs, "critic": rows[:, -spec.critic_dim :]}


def _value(obs: Any, part: Part) -> NDArray[Any]:
    if part.key is None:
        return _array(obs, "the observation")
    if not isinstance(obs, Mapping):
        raise EnvError(f"the observation is {type(obs).__name__}, the env's is a Dict with {part.key!r}")
    if part.key not in obs:
        raise EnvError(f"the observation has no key {part.key!r}{nearest(part.key, map(str, obs))}")
    return _array(obs[part.key], f"the observation's key {part.key!r}")


def _array(value: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise EnvError(f"{what} is no array ({error}); of env.reset() and env.step() give the first part") from error


def _lead(part: Part, value: NDArray[Any]) -> tuple[int, ...]:
    """() for one observation, (n,) for a batch."""
    lead = value.shape[: value.ndim - len(part.shape)]
    if value.ndim < len(part.shape) or len(lead) > 1 or value.shape[len(lead) :] != part.shape:
        what = "the observation" if part.key is None else f"the observation's key {part.key!r}"
        raise EnvError(f"{what} has shape {value.shape}; it must be {part.shape}, or n of them: (n, ...)")
    return lead


def _spaces(cfg: TrainConfig, spec: EnvSpec, encodes: bool) -> tuple[ObsLayout, ActionScale]:
    """How observations are laid out and actions scaled; Gymnasium's envs have shapes of their own, ours are flat."""
    env = cfg.env
    if choose(env).name != "gymnasium":
        low, high = (np.array(bound, np.float32) for bound in (spec.action_low, spec.action_high))
        seen, known = (Box(-np.inf, np.inf, (dim,)) for dim in (spec.obs_dim, spec.critic_dim))
        space = Dict({"obs": seen, "critic": known}, sort_keys=False) if encodes else seen
        return ObsLayout(env.env, space), ActionScale(env.env, Box(low, high, dtype=np.float32))
    with closing_env(make_one(env)) as made:
        layout = ObsLayout(env.env, made.observation_space, env.critic_keys)
        return layout, ActionScale(env.env, made.action_space, env.action_bound)

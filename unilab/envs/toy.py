"""The oracle env: every row says which env, when and where in its episode, so that a wrong row shows.

Columns of an observation, all exact in float32:

    0   run-wide index of the env
    1   tick: +1 per step; a reset jumps to the next multiple of 1000; starts over at 16,000,000
    2   step within the episode, 0 after a reset
    c   tick + c, for any further column c; in the critic group -(tick + c) beyond ``obs_dim``

The reward of a step is the tick of the state acted in. Actions change nothing. Metrics: ``is_success``, 1 in
the step that terminates an episode and 0 elsewhere, and ``tick``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.errors import EnvError, nearest
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig, Host

_WRAP = 16_000_000  # below 2**24, so that a tick stays exact in float32
_LEAST = {"obs_dim": 3, "action_dim": 1, "episode_length": 1}
_LEAST |= dict.fromkeys(("critic_extra", "length_step", "step_ms", "raise_at", "bad_at"), 0)
_ENDS = ("terminated", "truncated", "both", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyConfig:
    """The toy env's ``env_kwargs``."""

    obs_dim: int = 3
    """Columns of the `obs` group, at least 3."""

    action_dim: int = 1
    """Action dimensions, with bounds -1 and 1."""

    critic_extra: int = 0
    """Columns that only the critic sees; 0: no critic group."""

    episode_length: int = 7
    """Steps of an episode of env 0."""

    length_step: int = 0
    """Env i has episodes of ``episode_length + i * length_step`` steps."""

    ends: Literal["terminated", "truncated", "both", "mixed"] = "truncated"
    """How episodes end; mixed: the three in turn, by env index plus episode number."""

    step_ms: float = 0.0
    """Least duration of a step of all envs together, in milliseconds."""

    busy: bool = False
    """Spend ``step_ms`` computing instead of sleeping."""

    jitter: bool = False
    """Each step takes a time of its own, exponentially distributed with mean ``step_ms``, by the first env's seed."""

    raise_at: int = 0
    """Raise a ValueError in this step, counted from 1; 0: never."""

    bad_at: int = 0
    """Return a value that is not finite in this step; 0: never."""

    bad_in: Literal["obs", "reward"] = "obs"
    """Where: obs (column 1) or reward, of the first env."""

    bad_value: float = float("nan")
    """Which value."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, usual = getattr(self, field.name), type(field.default)
            if not isinstance(value, (int, float) if usual is float else usual):
                raise EnvError(f"toy env: {field.name}={value!r} must be of type {usual.__name__}")
            least = _LEAST.get(field.name, -math.inf)
            if isinstance(value, int | float) and value < least:
                raise EnvError(f"toy env: {field.name}={value} must be at least {least}")
        for name, value, known in (("ends", self.ends, _ENDS), ("bad_in", self.bad_in, ("obs", "reward"))):
            if value not in known:
                raise EnvError(f"toy env: {name}={value!r} must be one of {', '.join(known)}")
        if self.jitter and not self.step_ms:
            raise EnvError("toy env: jitter=True has no effect without step_ms")


def probe(cfg: EnvConfig) -> EnvSpec:
    """See ``registry.probe``."""
    toy = _toy_config(cfg)
    return EnvSpec(
        env_id=cfg.env,
        obs_dim=toy.obs_dim,
        action_dim=toy.action_dim,
        action_low=(-1.0,) * toy.action_dim,
        action_high=(1.0,) * toy.action_dim,
        critic_dim=toy.obs_dim + toy.critic_extra if toy.critic_extra else 0,
        metric_names=("is_success", "tick"),
        max_episode_steps=toy.episode_length + max(0, cfg.num_envs - 1) * toy.length_step,
    )


def make(cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec | None, host: Host) -> ToyEnv:
    """See ``registry.make_env``; no value is random: the seeds decide how long steps take, with ``jitter``."""
    return ToyEnv(_toy_config(cfg), seeds, first_index, spec or probe(cfg))


class ToyEnv:
    """``BatchEnv`` whose rows can be checked by arithmetic; picklable, and its state can be saved."""

    def __init__(self, cfg: ToyConfig, seeds: Sequence[int], first_index: int, spec: EnvSpec) -> None:
        self.num_envs = num_envs = len(seeds)
        self._seed = seeds[0]
        self.spec = spec
        self._cfg = cfg
        self._index = first_index + np.arange(num_envs, dtype=np.int64)
        self._length = cfg.episode_length + cfg.length_step * self._index
        self._tick = np.zeros(num_envs, np.int64)
        self._episode_step = np.zeros(num_envs, np.int64)
        self._episode = np.full(num_envs, -1, np.int64)
        self._steps = np.zeros((), np.int64)

    def reset(self) -> Groups:
        """See ``BatchEnv``."""
        self._begin_episodes(np.ones(self.num_envs, np.bool_))
        return self._groups()

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        if action.shape != (self.num_envs, self.spec.action_dim):
            raise ValueError(f"actions have shape {action.shape}, expected {self.num_envs, self.spec.action_dim}")
        self._steps += 1
        self._spend_time()
        if self._steps == self._cfg.raise_at:
            error = ValueError(f"toy env raises at step {self._steps}, as configured")
            error.add_note(f"env index {self._index[0]}, step {self._steps}")
            raise error
        reward = self._tick.astype(np.float32)
        self._tick = (self._tick + 1) % _WRAP
        self._episode_step += 1
        terminated, truncated = self._ends()
        metrics = {"is_success": terminated.astype(np.float32), "tick": self._tick.astype(np.float32)}
        next_obs = self._groups()
        self._begin_episodes(terminated | truncated)
        step = EnvStep(self._groups(), reward, terminated, truncated, next_obs, metrics)
        if self._steps == self._cfg.bad_at:
            (step.reward if self._cfg.bad_in == "reward" else step.next_obs["obs"][:, 1])[0] = self._cfg.bad_value
        return step

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """See ``ResetsSome``."""
        self._begin_episodes(which)
        return self._groups()

    def close(self) -> None:
        """See ``BatchEnv``; there is nothing to release."""

    def state(self) -> dict[str, NDArray[Any]]:
        """See ``SavesState``: [num_envs] int64 each, ``steps`` []."""
        return {
            "tick": self._tick.copy(),
            "episode_step": self._episode_step.copy(),
            "episode": self._episode.copy(),
            "steps": self._steps.copy(),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Groups:
        """See ``SavesState``."""
        if state["tick"].shape != (self.num_envs,):
            raise EnvError(f"toy env: the state is of {state['tick'].size} envs, these are {self.num_envs}")
        self._tick = state["tick"].copy()
        self._episode_step = state["episode_step"].copy()
        self._episode = state["episode"].copy()
        self._steps = state["steps"].copy()
        return self._groups()

    def _begin_episodes(self, who: NDArray[np.bool_]) -> None:
        jumped = (self._tick + 1000 - self._tick % 1000) % _WRAP
        self._tick = np.where(who, jumped, self._tick)
        self._episode_step = np.where(who, 0, self._episode_step)
        self._episode = self._episode + who

    def _ends(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        over = self._episode_step >= self._length
        if self._cfg.ends == "mixed":
            turn = (self._index + self._episode) % 3
            return over & (turn != 1), over & (turn != 0)
        return over & (self._cfg.ends != "truncated"), over & (self._cfg.ends != "terminated")

    def _groups(self) -> Groups:
        width = self.spec.critic_dim or self.spec.obs_dim
        rows = (self._tick[:, None] + np.arange(width)).astype(np.float32)
        rows[:, 0] = self._index
        rows[:, 1] = self._tick
        rows[:, 2] = self._episode_step
        obs = rows[:, : self.spec.obs_dim].copy()
        if not self.spec.critic_dim:
            return {"obs": obs}
        rows[:, self.spec.obs_dim :] *= -1
        return {"obs": obs, "critic": rows}

    def _spend_time(self) -> None:
        if not self._cfg.step_ms:
            return
        seconds = self._step_s()
        deadline = time.perf_counter() + seconds
        if not self._cfg.busy:
            time.sleep(seconds)
        while time.perf_counter() < deadline:
            pass

    def _step_s(self) -> float:
        """Of this step; keyed by its number, so that a saved state need not hold a generator."""
        mean_s = self._cfg.step_ms / 1e3
        if not self._cfg.jitter:
            return mean_s
        return float(np.random.default_rng([self._seed, int(self._steps)]).exponential(mean_s))


def _toy_config(cfg: EnvConfig) -> ToyConfig:
    known = [field.name for field in fields(ToyConfig)]
    for name in cfg.env_kwargs:
        if name not in known:
            raise EnvError(f"toy env: unknown env_kwargs key {name!r}{nearest(name, known)}")
    for name, idle in (("critic_keys", ()), ("action_bound", None)):
        if getattr(cfg, name) != idle:
            raise EnvError(f"toy env: {name} has no effect here; its actions are bounded, see critic_extra")
    if cfg.vec == "async":
        raise EnvError("toy env: vec='async' has no effect here; it steps all envs at once")
    return ToyConfig(**cfg.env_kwargs)

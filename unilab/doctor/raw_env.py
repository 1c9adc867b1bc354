"""One Gymnasium env without an adapter: what it really returns, against what its spaces promise.

The adapters mend most of it (dtypes, shapes of a reward, odd infos), which is why a run would not notice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from unilab.checks.finding import Finding, ok, warn
from unilab.envs.gymnasium_info import MAX_METRICS, metric_names
from unilab.envs.gymnasium_spaces import ActionScale
from unilab.envs.registry import EnvConfig
from unilab.spec import EnvSpec

_STEPS = 300
_SLACK = 1e-5
"""Relative: bounds are float32, and an angle of pi is often a little more."""


@dataclass(slots=True)
class RawSeen:
    """What one env returned."""

    steps: int = 0
    dtypes: dict[str, set[str]] = field(default_factory=dict)  # by key of the observation, "" for a plain one
    outside: dict[str, tuple[float, float, str]] = field(default_factory=dict)  # by key: excess, value, where
    reward: set[str] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)
    info: set[str] = field(default_factory=set)  # types of info that are no mapping
    late_names: set[str] = field(default_factory=set)  # scalars in an info that the first step's lacked


def raw_findings(env: gym.Env[Any, Any], cfg: EnvConfig, spec: EnvSpec, limit_s: float) -> list[Finding]:
    """Reset and step an env with random actions, then judge what it returned.

    Args:
        env: open; the caller closes it.
        cfg: which env.
        spec: its probe.
        limit_s: stop sooner where steps are slow.

    Raises:
        Exception: whatever the env raises.
    """
    seen = look(env, cfg, spec, limit_s)
    return [_observations(env.observation_space, seen), _values(seen), _infos(seen)]


def look(env: gym.Env[Any, Any], cfg: EnvConfig, spec: EnvSpec, limit_s: float) -> RawSeen:
    """Step and note; arguments as in ``raw_findings``."""
    seen, random, end_s = RawSeen(), np.random.default_rng(1), time.monotonic() + limit_s
    scale = ActionScale(cfg.env, env.action_space, cfg.action_bound)
    obs, info = env.reset()
    _note_obs(seen, env.observation_space, obs)
    _note_info(seen, info, spec, is_reset=True)
    while seen.steps < _STEPS and (seen.steps < 2 or time.monotonic() < end_s):
        seen.steps += 1
        action = scale(random.uniform(-1, 1, (1, scale.dim)).astype(np.float32), 0, seen.steps)[0, ...]
        obs, reward, terminated, truncated, info = env.step(action)
        _note_obs(seen, env.observation_space, obs)
        _note_info(seen, info, spec)
        seen.reward.add(_odd_number(reward))
        seen.flags |= {_odd_flag(terminated), _odd_flag(truncated)}
        if terminated or truncated:
            obs, info = env.reset()
            _note_obs(seen, env.observation_space, obs)
    return seen


def _observations(space: spaces.Space[Any], seen: RawSeen) -> Finding:
    boxes = dict(_boxes(space))
    for key, (_, value, where) in seen.outside.items():
        low, high = boxes[key].low.min(), boxes[key].high.max()
        return warn(
            "observation",
            f"{_named(key)}{where} reached {value:.6g}, outside of its space [{low:.6g}, {high:.6g}]",
            "widen the space's bounds or clip the value; unilab learns from it as it is",
        )
    for key, dtypes in seen.dtypes.items():
        if dtypes != {str(boxes[key].dtype)}:
            return warn(
                "observation",
                f"{_named(key)} is {' and '.join(sorted(dtypes))}, its space says {boxes[key].dtype}",
                "return the dtype of the space; unilab stores float32, values kept",
            )
    shown = ", ".join(f"{_named(key) if key else ''} {box.shape} {box.dtype}".strip() for key, box in boxes.items())
    return ok("observation", f"{shown}: shape, dtype and bounds hold over {seen.steps} steps and the resets")


def _values(seen: RawSeen) -> Finding:
    for what, odd in (("reward", seen.reward - {""}), ("terminated or truncated", seen.flags - {""})):
        if odd:
            return warn("values", f"{what} is {', '.join(sorted(odd))}", "return a plain float and plain bools")
    return ok("values", "reward is a number, terminated and truncated are bools, all finite")


def _infos(seen: RawSeen) -> Finding:
    if seen.info:
        return warn("info", f"info is {', '.join(sorted(seen.info))}", "return a dict; unilab ignores anything else")
    if seen.late_names:
        names = ", ".join(sorted(seen.late_names)[:3])
        return warn(
            "info",
            f"{names} appeared in info, but not in its first step",
            "put it into every info (NaN where it has no value): names to log are fixed by the first step",
        )
    return ok("info", "the names that are logged are in every first step's info")


def _note_obs(seen: RawSeen, space: spaces.Space[Any], obs: Any) -> None:
    for key, box in _boxes(space):
        value = obs[key] if key else obs
        dtype = str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__
        seen.dtypes.setdefault(key, set()).add(dtype)
        array = np.asarray(value, np.float64)
        excess = np.maximum(box.low - array, array - box.high) - _SLACK * np.abs(array)
        worst = int(np.argmax(excess))
        found = float(excess.flat[worst])
        if found > max(0.0, seen.outside.get(key, (0.0, 0.0, ""))[0]):
            place = np.unravel_index(worst, array.shape)
            where = f"[{', '.join(str(int(k)) for k in place)}]" if place else ""
            seen.outside[key] = (found, float(array.flat[worst]), where)


def _note_info(seen: RawSeen, info: Any, spec: EnvSpec, *, is_reset: bool = False) -> None:
    if not isinstance(info, Mapping):
        seen.info.add(f"a {type(info).__name__}")
    elif not is_reset and len(spec.metric_names) < MAX_METRICS:
        seen.late_names |= set(metric_names({}, info)) - set(spec.metric_names)


def _boxes(space: spaces.Space[Any]) -> Iterator[tuple[str, spaces.Box]]:
    if isinstance(space, spaces.Box):
        yield "", space
    elif isinstance(space, spaces.Dict):
        yield from ((key, part) for key, part in space.items() if isinstance(part, spaces.Box))


def _named(key: str) -> str:
    return f"key {key!r}" if key else "the observation"


def _odd_number(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        return f"a {type(value).__name__} of shape {np.shape(value)}"
    return "" if isinstance(value, int | float | np.number | np.bool_) else f"a {type(value).__name__}"


def _odd_flag(value: Any) -> str:
    return "" if isinstance(value, bool | np.bool_) else f"a {type(value).__name__}"

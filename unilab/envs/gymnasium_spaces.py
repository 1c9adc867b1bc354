"""Gymnasium spaces to and from unilab's flat float32 rows and actions in [-1, 1].

Observations are a Box, or a Dict of Boxes in one level. Key order of a Dict is the space's own: gymnasium
(checked: 1.4) sorts the keys of a plain dict and keeps the order of an OrderedDict, of a list of
pairs and of ``Dict(..., sort_keys=False)``. It does not depend on the order in the env's observations.

A row holds the columns of the `obs` group, then those that only the critic sees. The `critic` group is the
whole row: an asymmetric critic sees everything that the policy sees, and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from unilab.envs.base import Groups
from unilab.envs.finite import all_finite, to_float32
from unilab.errors import EnvError, NonFinite, nearest

_ACTIONS = "unilab trains on Box actions of a float type with finite bounds"
_OBSERVATIONS = "unilab takes a Box or a Dict of Boxes"
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Part:
    """A Box and its columns in the row."""

    key: str | None  # None: the observation is this Box itself
    shape: tuple[int, ...]
    columns: slice


class ObsLayout:
    """Which column of a row comes from where.

    Args:
        env_id: for messages.
        space: observation space of one env.
        critic_keys: keys of a Dict space that only the critic sees; their order is the space's.

    Raises:
        EnvError: another kind of space, or an unknown critic key.
    """

    def __init__(self, env_id: str, space: spaces.Space[Any], critic_keys: tuple[str, ...] = ()) -> None:
        boxes = _boxes(env_id, space, critic_keys)
        self.obs_keys = tuple(key for key in boxes if key is not None and key not in critic_keys)
        self.critic_keys = tuple(key for key in boxes if key in critic_keys)
        self.parts: list[Part] = []
        self.width = 0
        for key in sorted(boxes, key=lambda key: key in critic_keys):  # stable: obs columns come first
            size = int(np.prod(boxes[key].shape, dtype=np.int64))
            self.parts.append(Part(key, boxes[key].shape, slice(self.width, self.width + size)))
            self.width += size
        hidden = sum(int(np.prod(boxes[key].shape, dtype=np.int64)) for key in self.critic_keys)
        self.obs_dim = self.width - hidden
        if self.obs_dim == 0:
            raise EnvError(f"{env_id}: the observation {space} leaves no column for the policy")
        self.critic_dim = self.width if critic_keys else 0
        self._dtype = _row_dtype(boxes)
        only = self.parts[0]
        self._flat_shape = only.shape if only.key is None and len(only.shape) == 1 else None

    def empty(self, n: int) -> NDArray[Any]:
        """[n, width] rows to write into, wide enough that writing loses nothing."""
        return np.empty((n, self.width), self._dtype)

    def write(self, row: NDArray[Any], obs: Any) -> None:
        """Copy one observation into ``row`` [width].

        Raises:
            EnvError: the observation lacks a key, or has another shape than its space says.
        """
        if type(obs) is np.ndarray and obs.shape == self._flat_shape:  # most envs, most of the time
            row[:] = obs
            return
        for part in self.parts:
            value = obs if part.key is None else self._value(obs, part.key)
            array = value if type(value) is np.ndarray else _as_array(value)
            if array.shape != part.shape:
                raise EnvError(f"{_name(part)} has shape {array.shape}, its space says {part.shape}")
            row[part.columns] = array.reshape(-1)

    def write_batch(self, rows: NDArray[Any], obs: Any) -> None:
        """Copy batched observations, [n, ...] per Box, into ``rows`` [n, width]; errors as ``write``."""
        for part in self.parts:
            array = np.asarray(obs if part.key is None else self._value(obs, part.key))
            if array.shape != (len(rows), *part.shape):
                shapes = f"has shape {array.shape}, its space says {(len(rows), *part.shape)}"
                raise EnvError(f"batched {_name(part)} {shapes}")
            rows[:, part.columns] = array.reshape(len(rows), -1)

    def groups(self, rows: NDArray[Any]) -> Groups:
        """Rows [n, width] as float32 groups, which may share memory with them."""
        out = to_float32(rows)
        if not self.critic_dim:
            return {"obs": out}
        return {"obs": np.ascontiguousarray(out[:, : self.obs_dim]), "critic": out}

    def _value(self, obs: Any, key: str) -> Any:
        if not isinstance(obs, Mapping):
            raise EnvError(f"the observation is {type(obs).__name__}, its space says Dict")
        if key not in obs:
            raise EnvError(f"the observation has no key {key!r}, only {', '.join(map(repr, obs))}")
        return obs[key]


class ActionScale:
    """[-1, 1] to the Box of the env, dimension by dimension.

    Args:
        env_id: for messages.
        space: action space of one env.
        bound: replaces infinite bounds, -bound below and bound above.

    Raises:
        EnvError: another kind of space, a dimension without finite bounds, or a ``bound`` without effect.
    """

    def __init__(self, env_id: str, space: spaces.Space[Any], bound: float | None = None) -> None:
        box = _action_box(env_id, space)
        self._low, self._high = _finite_bounds(env_id, box, bound)
        self._low64 = self._low.astype(np.float64)
        self._high64 = self._high.astype(np.float64)
        self._symmetric = bool((self._low64 == -self._high64).all())
        self._shape = box.shape
        self._dtype = box.dtype
        self.dim = self._low.size
        self.low = tuple(map(float, self._low))
        self.high = tuple(map(float, self._high))

    def __call__(self, action: NDArray[np.float32], first_index: int, step: int) -> NDArray[Any]:
        """[n, dim] in [-1, 1] to [n, *shape] of the space's dtype, inside its bounds; a fresh array.

        -1, 0 and 1 give exactly the lower bound, the middle and the upper bound.

        Raises:
            NonFinite: the policy gave a NaN or an infinity.
        """
        if action.ndim != 2 or action.shape[1] != self.dim:
            raise ValueError(f"actions have shape {action.shape}, expected (num_envs, {self.dim})")
        if not all_finite(action):
            env, column = (int(k) for k in np.argwhere(~np.isfinite(action))[0])
            raise NonFinite(
                f"action[{column}] = {action[env, column]} is not finite for env index "
                f"{first_index + env}, step {step}; the policy's output is broken"
            )
        out: NDArray[Any]
        if self._symmetric:
            out = (action * self._high).astype(self._dtype, copy=False)
        else:
            # Weights of the two ends rather than low + t * (high - low): exact at both, and no overflow.
            t = (action.astype(np.float64) + 1.0) * 0.5
            out = (self._low64 * (1.0 - t) + self._high64 * t).astype(self._dtype)
        # After the cast: rounding to float32 may step over a bound.
        np.maximum(out, self._low, out=out)
        np.minimum(out, self._high, out=out)
        return out.reshape(len(action), *self._shape)


def _boxes(env_id: str, space: spaces.Space[Any], critic_keys: tuple[str, ...]) -> dict[Any, spaces.Box]:
    """Key -> Box in the space's own order; the key None stands for the observation itself."""
    if isinstance(space, spaces.Box):
        if critic_keys:
            raise EnvError(f"{env_id}: critic_keys={critic_keys} needs a Dict observation, not {space}")
        return {None: space}
    if not isinstance(space, spaces.Dict):
        kind = type(space).__name__
        raise EnvError(f"{env_id}: the observation space is {kind}, {_OBSERVATIONS} (see FlattenObservation)")
    boxes: dict[Any, spaces.Box] = {}
    for key, part in space.items():
        if not isinstance(part, spaces.Box):
            kind = "a nested Dict" if isinstance(part, spaces.Dict) else type(part).__name__
            raise EnvError(f"{env_id}: key {key!r} of the Dict observation is {kind}, {_OBSERVATIONS}")
        boxes[key] = part
    for key in critic_keys:
        if key not in boxes:
            raise EnvError(f"{env_id}: critic key {key!r} is not in {tuple(boxes)}{nearest(key, boxes)}")
    return boxes


def _row_dtype(boxes: Mapping[Any, spaces.Box]) -> type[np.floating[Any]]:
    """float32 for small integers (images), else float64, which many envs return whatever their space says."""
    small = all(box.dtype.kind in "iub" and box.dtype.itemsize <= 2 for box in boxes.values())
    return np.float32 if small else np.float64


def _as_array(value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise EnvError(f"the observation is not an array: {error}") from error


def _name(part: Part) -> str:
    return "the observation" if part.key is None else f"the observation's key {part.key!r}"


def _action_box(env_id: str, space: spaces.Space[Any]) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise EnvError(f"{env_id}: the action space is {type(space).__name__}; {_ACTIONS}")
    if space.dtype.kind != "f":
        raise EnvError(f"{env_id}: the action space is a Box of {space.dtype}; {_ACTIONS}")
    if np.prod(space.shape) == 0:
        raise EnvError(f"{env_id}: the action space {space} has no dimension; {_ACTIONS}")
    return space


def _finite_bounds(env_id: str, box: spaces.Box, bound: float | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Flat bounds in the box's dtype; a bound at float32's limit counts as none."""
    low: NDArray[Any] = box.low.reshape(-1).copy()
    high: NDArray[Any] = box.high.reshape(-1).copy()
    open_low = ~(low.astype(np.float64) > -_FLOAT32_MAX)
    open_high = ~(high.astype(np.float64) < _FLOAT32_MAX)
    if (low > high).any():
        k = int(np.flatnonzero(low > high)[0])
        raise EnvError(f"{env_id}: action dimension {k} is [{low[k]}, {high[k]}]: its lower bound is the higher one")
    is_open = open_low | open_high
    if bound is None and is_open.any():
        k = int(np.flatnonzero(is_open)[0])
        more = f" ({int(is_open.sum())} of {low.size} dimensions are)" if is_open.sum() > 1 else ""
        raise EnvError(
            f"{env_id}: action dimension {k} is unbounded, [{low[k]}, {high[k]}]{more}; a policy in [-1, 1] "
            f"needs finite bounds: give --action-bound B to use [-B, B] in env units"
        )
    if bound is not None and not is_open.any():
        raise EnvError(f"{env_id}: action_bound={bound} has no effect, all action dimensions are bounded")
    if bound is not None:
        low[open_low], high[open_high] = -bound, bound
        if (low >= high).any():
            k = int(np.flatnonzero(low >= high)[0])
            raise EnvError(f"{env_id}: action_bound={bound} leaves dimension {k} empty: [{low[k]}, {high[k]}]")
    return low, high

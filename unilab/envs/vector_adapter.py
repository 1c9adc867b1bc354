"""Any gymnasium ``VectorEnv`` as a ``BatchEnv``: its autoreset mode ends here.

DISABLED    the successor is in hand; ended envs are reset at once with ``options={"reset_mask": ...}``.
SAME_STEP   the returned observation is the reset one; the successor is ``info["final_obs"]``.
NEXT_STEP   the successor is in hand; a masked reset makes the reset step, and its unusable row, go away.
            ``SyncVectorEnv`` and ``AsyncVectorEnv`` with shared memory honour the mask in this mode
            (checked: gymnasium 1.4); other vector envs in this mode are refused.

Known limit of gymnasium, which no adapter can mend: in SAME_STEP mode its vector envs keep a reference to the
final observation while they reset, so an env that writes into one array loses it there. unilab's own
backends use DISABLED or no vector env at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.envs.finite import to_float32
from unilab.envs.gymnasium_info import MetricReader, metric_value
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.envs.gymnasium_spec import spec_of
from unilab.errors import EnvError
from unilab.spec import EnvSpec

_Vector = VectorEnv[Any, Any, Any]


class VectorAdapter:
    """``BatchEnv`` over a ``VectorEnv`` in any autoreset mode; all modes give the same transitions.

    Args:
        vec: the vector env, which this object owns from now on.
        seeds: one per env for the first reset; a vector env that is not gymnasium's own gets only the first.
        env_id: for the spec and messages.
        critic_keys: Dict keys that only the critic sees.
        action_bound: bound for unbounded action dimensions.
        metric_names: keys of the infos to report; NaN where one is missing.
        first_index: run-wide index of the first env.
        spec: the spec to show where the vector env's own would hide something (wrapped envs).

    Raises:
        EnvError: a space or an autoreset mode that cannot be adapted.
    """

    def __init__(
        self,
        vec: _Vector,
        *,
        seeds: Sequence[int],
        env_id: str = "VectorEnv",
        critic_keys: tuple[str, ...] = (),
        action_bound: float | None = None,
        metric_names: tuple[str, ...] = (),
        first_index: int = 0,
        spec: EnvSpec | None = None,
    ) -> None:
        self._mode = _checked_mode(env_id, vec)
        self._vec = vec
        self._layout = ObsLayout(env_id, vec.single_observation_space, critic_keys)
        self._scale = ActionScale(env_id, vec.single_action_space, action_bound)
        self.num_envs = vec.num_envs
        self.spec = spec or spec_of(env_id, self._layout, self._scale, metric_names)
        self._metrics = MetricReader(self.spec.metric_names)
        self._seed: Any = list(seeds) if _is_gymnasiums_own(vec) else seeds[0]
        self._first_index = first_index
        self._steps = 0

    def reset(self) -> Groups:
        """See ``BatchEnv``."""
        seed, self._seed = self._seed, None
        try:
            obs, _ = self._vec.reset(seed=seed)
        except Exception as error:
            self._add_note(error)
            raise
        return self._groups(self._rows(obs))

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        self._steps += 1
        actions = self._scale(action, self._first_index, self._steps)
        try:
            obs, reward, terminated, truncated, infos = self._vec.step(actions)
            terminated, truncated = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
            ended = terminated | truncated
            # Copied before the masked reset: the vector env may reuse its arrays.
            rows = self._rows(obs)
            reward = np.array(reward, np.float64).reshape(self.num_envs)
            if not ended.any():
                next_rows, metrics = rows, self._read(infos)
            elif self._mode is AutoresetMode.SAME_STEP:
                next_rows = self._with_final_rows(rows, ended, infos)
                metrics = np.where(ended[:, None], self._read(infos.get("final_info", {})), self._read(infos))
            else:
                next_rows, metrics = rows, self._read(infos)
                rows = self._reset_rows(rows, ended)
        except Exception as error:
            self._add_note(error)
            raise
        return EnvStep(
            obs=self._groups(rows.copy()),
            reward=to_float32(reward),
            terminated=terminated,
            truncated=truncated,
            next_obs=self._groups(next_rows),
            metrics=self._metrics.columns(metrics),
        )

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """See ``ResetsSome``.

        Raises:
            EnvError: the mode is SAME_STEP, which has no reset of some envs.
        """
        if self._mode is AutoresetMode.SAME_STEP:
            raise EnvError(f"{self.spec.env_id}: a vector env in SAME_STEP mode cannot reset some of its envs")
        try:
            obs, _ = self._vec.reset(options={"reset_mask": which.copy()})
        except Exception as error:
            self._add_note(error)
            raise
        return self._groups(self._rows(obs))

    def close(self) -> None:
        """See ``BatchEnv``."""
        self._vec.close()

    def _rows(self, obs: Any) -> NDArray[Any]:
        rows = self._layout.empty(self.num_envs)
        self._layout.write_batch(rows, obs)
        return rows

    def _groups(self, rows: NDArray[Any]) -> Groups:
        return self._layout.groups(rows)

    def _with_final_rows(self, rows: NDArray[Any], ended: NDArray[np.bool_], infos: Any) -> NDArray[Any]:
        """``rows`` with the successors of ended envs in place of their reset observations."""
        final, rows = infos.get("final_obs"), rows.copy()
        if final is None:
            raise self._no_final_obs(int(np.flatnonzero(ended)[0]))
        for i in np.flatnonzero(ended):
            # Gymnasium's own give an object array of observations, others a batched observation.
            one = {key: part[i] for key, part in final.items()} if isinstance(final, dict) else final[i]
            if one is None:
                raise self._no_final_obs(int(i))
            self._layout.write(rows[i], one)
        return rows

    def _no_final_obs(self, i: int) -> EnvError:
        return EnvError(
            f"{self.spec.env_id}: env index {self._first_index + i} ended at step {self._steps} without "
            f'info["final_obs"]; a vector env in SAME_STEP mode must give the final observation'
        )

    def _reset_rows(self, rows: NDArray[Any], ended: NDArray[np.bool_]) -> NDArray[Any]:
        """``rows`` with the reset observations of ended envs."""
        obs, _ = self._vec.reset(options={"reset_mask": ended.copy()})
        reset_rows = self._rows(obs)
        if not np.array_equal(rows[~ended], reset_rows[~ended], equal_nan=True):
            raise EnvError(f"{self.spec.env_id}: the vector env ignores reset_mask; it reset envs in mid-episode")
        return reset_rows

    def _read(self, infos: Any) -> NDArray[np.float64]:
        """[n, metrics] from batched infos, where ``_name`` masks the envs that have ``name``."""
        out = np.full((self.num_envs, len(self._metrics.names)), np.nan)
        for k, name in enumerate(self._metrics.names):
            values = infos.get(name)
            if isinstance(values, np.ndarray | list) and len(values) == self.num_envs:
                numbers = [metric_value(value) for value in values]
                out[:, k] = np.where(infos.get(f"_{name}", True), numbers, np.nan)
        return out

    def _add_note(self, error: Exception) -> None:
        if not getattr(error, "__notes__", None):  # the wrapped env may know the index
            last = self._first_index + self.num_envs - 1
            error.add_note(f"one of env indices {self._first_index} to {last}, step {self._steps}")


def _checked_mode(env_id: str, vec: _Vector) -> AutoresetMode:
    try:
        mode = AutoresetMode(vec.metadata["autoreset_mode"])
    except (KeyError, ValueError):
        raise EnvError(
            f'{env_id}: the vector env does not say its autoreset mode in metadata["autoreset_mode"]'
        ) from None
    inner = vec.unwrapped
    if mode is AutoresetMode.NEXT_STEP and not (
        isinstance(inner, SyncVectorEnv) or (isinstance(inner, AsyncVectorEnv) and inner.shared_memory)
    ):
        raise EnvError(
            f"{env_id}: {type(inner).__name__} uses NEXT_STEP autoreset without masked resets, which adds a "
            f"row that is no transition; make it with AutoresetMode.DISABLED or SAME_STEP"
        )
    return mode


def _is_gymnasiums_own(vec: _Vector) -> bool:
    return isinstance(vec.unwrapped, SyncVectorEnv | AsyncVectorEnv)

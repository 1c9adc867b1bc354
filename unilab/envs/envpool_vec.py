"""The envpool backend: any id of the optional package ``envpool`` with Box actions and Box observations.

envpool resets an ended env in the step after its end, which ignores the action and gives a row that is no transition.
Here ended envs are reset at once, by a ``reset`` of just those ids, so that this step never comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unilab.envs.base import EnvStep, Groups
from unilab.envs.finite import to_float32
from unilab.envs.gymnasium_info import MetricReader
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.envs.gymnasium_spec import check_same, spec_of
from unilab.envs.module_id import one_line
from unilab.errors import EnvError, nearest
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unilab.envs.registry import EnvConfig, Host

_RESERVED = ("num_envs", "batch_size", "num_threads", "seed", "env_seed", "env_type")
_NOT_METRICS = ("env_id", "players", "elapsed_step")


def probe(cfg: EnvConfig) -> EnvSpec:
    """See ``registry.probe``; the one step takes the middle action."""
    pool = _pool(cfg, seeds=[0], threads=1)
    layout, scale = _adapters(cfg, pool)
    with _named(cfg.env, "its first step"):
        pool.reset()
        _, _, _, _, info = pool.step(scale(np.zeros((1, scale.dim), np.float32), 0, 1))
    limit = pool.spec.config.max_episode_steps
    spec = spec_of(cfg.env, layout, scale, _metric_names(info), int(limit) if 0 < limit < 2**31 - 1 else None)
    pool.close()
    return spec


def make(cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec | None, host: Host) -> EnvPoolEnv:
    """See ``registry.make_env``."""
    spec = spec or probe(cfg)
    pool = _pool(cfg, seeds=seeds, threads=host.threads)
    layout, scale = _adapters(cfg, pool)
    check_same(spec, layout, scale)
    return EnvPoolEnv(pool, layout, scale, spec, first_index=first_index)


class EnvPoolEnv:
    """``BatchEnv`` over an envpool in synchronous mode.

    Args:
        pool: the envs, each with its own seed; this object owns them from now on.
        layout: their observations.
        scale: their actions.
        spec: what they look like.
        first_index: run-wide index of the first env, for messages.
    """

    def __init__(self, pool: Any, layout: ObsLayout, scale: ActionScale, spec: EnvSpec, *, first_index: int) -> None:
        self.num_envs: int = pool.num_envs
        self.spec = spec
        self._pool = pool
        self._layout = layout
        self._scale = scale
        self._metrics = MetricReader(spec.metric_names)
        self._first_index = first_index
        self._steps = 0

    def reset(self) -> Groups:
        """See ``BatchEnv``; the envs have had their seeds since they were made."""
        return self._groups(self._rows(self._pool.reset()[0], self.num_envs))

    def step(self, action: NDArray[np.float32]) -> EnvStep:
        """See ``BatchEnv``."""
        self._steps += 1
        obs, reward, terminated, truncated, info = self._pool.step(self._scale(action, self._first_index, self._steps))
        rows = self._rows(obs, self.num_envs)
        metrics = np.column_stack([info[name] for name in self._metrics.names] or [np.empty((self.num_envs, 0))])
        terminated, truncated = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
        next_rows, ended = rows, np.flatnonzero(terminated | truncated)
        if ended.size:
            rows = rows.copy()
            self._reset_into(rows, ended)
        return EnvStep(
            obs=self._groups(rows.copy()),
            reward=to_float32(np.array(reward)),
            terminated=terminated,
            truncated=truncated,
            next_obs=self._groups(next_rows),
            metrics=self._metrics.columns(metrics.astype(np.float64)),
        )

    def reset_envs(self, which: NDArray[np.bool_]) -> Groups:
        """See ``ResetsSome``."""
        rows = np.zeros_like(self._layout.empty(self.num_envs))
        self._reset_into(rows, np.flatnonzero(which))
        return self._groups(rows)

    def close(self) -> None:
        """See ``BatchEnv``."""
        self._pool.close()

    def _reset_into(self, rows: NDArray[Any], ids: NDArray[np.int64]) -> None:
        obs, info = self._pool.reset(ids.astype(np.int32))
        # Whichever env is ready first comes first.
        rows[info["env_id"]] = self._rows(obs, ids.size)

    def _rows(self, obs: Any, n: int) -> NDArray[Any]:
        rows = self._layout.empty(n)
        self._layout.write_batch(rows, obs)
        return rows

    def _groups(self, rows: NDArray[Any]) -> Groups:
        return self._layout.groups(rows)


def _pool(cfg: EnvConfig, *, seeds: Sequence[int], threads: int) -> Any:
    try:
        import envpool
    except ImportError as error:
        raise EnvError(
            f"backend=envpool needs the package: pip install 'unilab-offpolicy[envpool]' ({error})"
        ) from error
    if cfg.vec == "async":
        raise EnvError(f"{cfg.env}: vec=async has no effect with backend=envpool, whose threads step all envs at once")
    known = envpool.list_all_envs()
    if cfg.env not in known:
        raise EnvError(f"envpool {envpool.__version__} has no env {cfg.env!r}{nearest(cfg.env, known)}")
    for key in cfg.env_kwargs:
        if key in _RESERVED:
            raise EnvError(f"{cfg.env}: env_kwargs {key!r} is set by unilab; see num_envs, seed and threads")
    with _named(cfg.env, f"it cannot be made with env_kwargs {cfg.env_kwargs}:"):
        return envpool.make_gymnasium(
            cfg.env, num_envs=len(seeds), env_seed=list(seeds), num_threads=threads, **cfg.env_kwargs
        )


def _adapters(cfg: EnvConfig, pool: Any) -> tuple[ObsLayout, ActionScale]:
    return (
        ObsLayout(cfg.env, pool.observation_space, cfg.critic_keys),
        ActionScale(cfg.env, pool.action_space, cfg.action_bound),
    )


def _metric_names(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the infos that hold one number per env."""
    names = [name for name, value in info.items() if isinstance(value, np.ndarray) and value.shape == (1,)]
    return tuple(sorted(name for name in names if name not in _NOT_METRICS))


@contextmanager
def _named(env_id: str, what: str) -> Iterator[None]:
    """An exception of envpool as one sentence."""
    try:
        yield
    except Exception as error:
        raise EnvError(f"{env_id}: {what} raised {one_line(error)}") from error

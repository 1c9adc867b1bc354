"""The two questions every backend answers, probe and make, put to the backend that a config belongs to.

A backend is one module with ``probe`` and ``make`` (see ``Backend``) and its place in ``envs/choice.py``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from unilab.envs.base import BatchEnv
from unilab.envs.choice import choose
from unilab.errors import ConfigError
from unilab.seeding import EVAL_INDEX, env_seed, eval_seed
from unilab.spec import EnvSpec

_BACKENDS = ("auto", "mujoco", "gymnasium", "envpool")
_VECS = ("sync", "async", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvConfig:
    """Which env to train on, and how its copies are stepped."""

    env: str = "HalfCheetah-v5"
    """Any Gymnasium id, also `module:Id`, which imports the module first, or the `module:Name` of an env class or of a
    function that makes an env; `unilab/Toy-v0` is built in."""

    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the env's constructor; those of a preset hold where none of that name is given."""

    backend: Literal["auto", "mujoco", "gymnasium", "envpool"] = "auto"
    """mujoco: unilab's native tasks, batched. gymnasium: any Gymnasium id. envpool: any id of that package, if it is
    installed. auto: mujoco where it has the task and its options, else gymnasium."""

    num_envs: int = 1
    """Envs that are stepped together."""

    vec: Literal["sync", "async", "auto"] = "auto"
    """sync: one loop in the collector. async: one process per env, worth it where a step takes milliseconds.
    auto: sync, the faster one for every MuJoCo task measured; never decided by a measurement."""

    critic_keys: tuple[str, ...] = ()
    """Keys of a Dict observation that only the critic sees; the critic gets all keys, the policy the rest."""

    action_bound: float | None = None
    """Bound for action dimensions that have none: -B below and B above, in env units."""

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ConfigError(f"num_envs={self.num_envs} must be at least 1")
        if self.backend not in _BACKENDS:
            raise ConfigError(f"backend={self.backend!r} is unknown; use one of {', '.join(_BACKENDS)}")
        if self.vec not in _VECS:
            raise ConfigError(f"vec={self.vec!r} is unknown; use one of {', '.join(_VECS)}")
        if self.action_bound is not None and not 0 < self.action_bound < math.inf:
            raise ConfigError(f"action_bound={self.action_bound} must be a positive, finite number")
        if len(set(self.critic_keys)) < len(self.critic_keys):
            raise ConfigError(f"critic_keys={self.critic_keys} names a key twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The process that steps the envs, and what for."""

    threads: int = 1
    """Threads that a backend may step its envs with; they never change the results."""
    role: Literal["train", "eval"] = "train"
    log_dir: Path | None = None
    """Where a simulator's own log goes; None: nowhere."""


class Backend(Protocol):
    """What a backend module offers."""

    def probe(self, cfg: EnvConfig) -> EnvSpec:
        """Build one env in this process, check it, close it; ``EnvError`` where it cannot be trained on."""

    def make(
        self, cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec | None, host: Host
    ) -> BatchEnv:
        """Build ``cfg.num_envs`` envs; ``seeds`` has one for the first reset of each."""


def probe(cfg: EnvConfig) -> EnvSpec:
    """Build one env in the calling process, check it, read its metric names and close it.

    The env is reset without a seed and stepped once.

    Raises:
        EnvError: the env cannot be made or trained on; one sentence with the fix.
    """
    return _backend(cfg).probe(cfg)


def make_env(
    cfg: EnvConfig,
    *,
    seed: int,
    first_index: int = 0,
    role: Literal["train", "eval"] = "train",
    before: int = 0,
    spec: EnvSpec | None = None,
    threads: int = 1,
    log_dir: Path | None = None,
) -> BatchEnv:
    """Build ``cfg.num_envs`` envs that are stepped together.

    Args:
        cfg: the env and how to step it.
        seed: the run's seed; env i gets ``env_seed(seed, first_index + i)``, or ``eval_seed`` for
            evaluation, at its first reset and never again.
        first_index: index of the first of these envs, counted over all collectors of the run.
        role: training or evaluation.
        before: seeds of the run that were used up before: envs that start anew in a run that goes on get others.
        spec: the run's ``probe(cfg)``, so that all processes agree on the metric names; None probes here.
        threads: that the envs may be stepped with.
        log_dir: where a simulator's own log goes, the run directory as a rule; None: nowhere.

    Raises:
        EnvError: the env cannot be made, or is not the one that ``spec`` describes.
    """
    draw = env_seed if role == "train" else eval_seed
    first = before + first_index
    seeds = [draw(seed, (first + i) % EVAL_INDEX) for i in range(cfg.num_envs)]
    host = Host(threads=threads, role=role, log_dir=log_dir)
    return _backend(cfg).make(cfg, seeds=seeds, first_index=first_index, spec=spec, host=host)


def _backend(cfg: EnvConfig) -> Backend:
    return cast(Backend, importlib.import_module(choose(cfg).module))

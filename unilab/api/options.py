"""Keyword arguments to a config: every field by its own name, and the names that Stable-Baselines3 has for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from unilab.algos.registry import ALGORITHMS
from unilab.config import TrainConfig, check, overlay
from unilab.errors import ConfigError, nearest
from unilab.presets import AUTO, load_preset

ALIASES = {
    "n_envs": "num_envs",
    "lr": "learning_rate",
    "n_steps": "n_step",
    "tensorboard_log": "log_dir",
    "target_policy_noise": "target_noise",
    "target_noise_clip": "noise_clip",
}
"""Stable-Baselines3's name -> ours, where the value means the same."""

NOT_HERE = {
    "total_steps": "it is the argument of learn: .learn(100_000)",
    "total_timesteps": "it is the argument of learn: .learn(100_000)",
    "algo": "the class is the algorithm",
    "action_noise": "TD3 has exploration_noise, a standard deviation for actions in [-1, 1]; SAC explores by itself",
    "target_update_interval": "targets move at each update by tau (with TD3 every policy_delay updates)",
    "use_sde": "there is no state-dependent exploration",
    "use_sde_at_warmup": "there is no state-dependent exploration",
    "sde_sample_freq": "there is no state-dependent exploration",
    "replay_buffer_class": "the replay is unilab's own, in shared memory",
    "replay_buffer_kwargs": "the replay is unilab's own; time limits bootstrap as they should",
    "optimize_memory_usage": "the replay is unilab's own, and checked against the memory before it is taken",
    "stats_window_size": "rollout/* are means of the last 100 episodes",
}
"""Names that have no field, and what to do instead."""

_UNLIMITED = 10**12  # env steps: how long learn goes on is not known yet


def new_config(algo: str, preset: str | None, changes: Mapping[str, Any], *, size: str = AUTO) -> TrainConfig:
    """The command line's config for ``--algo``, ``--preset`` and ``--size``, with changes.

    Raises:
        ConfigError: unknown name (with the nearest known one), bad value or conflict.
    """
    device = changes.get("device", AUTO)
    return changed(load_preset(algo, preset, size=size, device=str(device)), changes)


def changed(cfg: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """A config with fields replaced by their flat names; errors as ``new_config``."""
    sections = _sections(cfg.algo)
    nested: dict[str, Any] = {}
    for name, value in plain_names(changes).items():
        if name not in sections:
            raise ConfigError(f"unknown argument {name!r}{nearest(name, [*sections, *ALIASES])}")
        place = nested.setdefault(sections[name], {}) if sections[name] else nested
        place[name] = _plain(value)
    if kwargs := nested.get("env", {}).get("env_kwargs"):
        nested["env"]["env_kwargs"] = _as_written(kwargs)
    result = overlay(cfg, nested, cfg.algo.upper())
    check(dataclasses.replace(result, total_steps=_UNLIMITED))
    return result


def plain_names(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under our names.

    Raises:
        ConfigError: a name of Stable-Baselines3 that has no counterpart, in a sentence, or one thing given twice.
    """
    found: dict[str, Any] = {}
    for given, value in _updates_per_step(changes).items():
        if given in NOT_HERE:
            raise ConfigError(f"{given}={value!r} has no place here: {NOT_HERE[given]}")
        if value is None and given in ("tensorboard_log", "policy_kwargs"):
            continue
        ours = _widths(value) if given == "policy_kwargs" else {ALIASES.get(given, given): value}
        for name, meant in ours.items():
            if name in found:
                raise ConfigError(f"{name} is given twice, once as {given}")
            found[name] = meant
    return found


def _updates_per_step(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse ``train_freq`` and ``gradient_steps``, with the ``utd`` that they amount to."""
    given = {name: changes[name] for name in ("train_freq", "gradient_steps") if name in changes}
    if not given:
        return changes
    every, steps = changes.get("train_freq", 1), changes.get("gradient_steps", 1)
    envs = changes.get("num_envs", changes.get("n_envs", "num_envs"))
    what = ", ".join(f"{name}={value!r}" for name, value in given.items())
    way = "utd = gradient_steps / (train_freq x num_envs)"
    if steps == -1:
        way = "utd=1 is as many updates as env steps, which gradient_steps=-1 means"
    elif all(isinstance(number, int) for number in (every, steps, envs)):
        way = f"utd={steps / (every * envs):g}, which is gradient_steps / (train_freq x num_envs)"
    raise ConfigError(f"{what}: unilab counts updates per env step, whatever the number of envs; use {way}")


def _widths(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """``hidden``, and ``critic_hidden``, empty where it is the same; neither where they are not given."""
    for name in policy_kwargs:
        if name != "net_arch":
            raise ConfigError(
                f"policy_kwargs has {name!r}, which has no place here: only net_arch does; or use hidden=(256, 256)"
            )
    widths = policy_kwargs.get("net_arch")
    if widths is None:
        return {}
    if not isinstance(widths, Mapping):
        return {"hidden": widths, "critic_hidden": ()}
    if widths.keys() != {"pi", "qf"}:
        raise ConfigError(f"net_arch={widths!r} must be a list, or have pi (the actor's widths) and qf (the critics')")
    actor, critics = widths["pi"], widths["qf"]
    return {"hidden": actor, "critic_hidden": () if tuple(critics) == tuple(actor) else critics}


def _sections(algo: str) -> dict[str, str]:
    """Name of each field -> its section of ``TrainConfig``; "" for its own fields."""
    sections: dict[str, str] = {}
    default = TrainConfig()
    for field in dataclasses.fields(TrainConfig):
        value = getattr(default, field.name)
        if not dataclasses.is_dataclass(value):
            sections[field.name] = ""
        elif field.name == algo or field.name not in ALGORITHMS:
            sections |= {inner.name: field.name for inner in dataclasses.fields(value)}
    return sections


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _as_written(kwargs: Any) -> Any:
    """Keyword arguments as config.yaml keeps them: its lists are what an env gets, whoever starts the run."""
    try:
        return yaml.safe_load(yaml.safe_dump(kwargs))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"env_kwargs={kwargs!r} must be numbers, strings, lists and dicts: they are written to config.yaml"
        ) from error

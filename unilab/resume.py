"""A run that goes on: from which checkpoint, and what may differ from how it began."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from unilab.checkpoint import find_checkpoint, list_checkpoints, load_checkpoint, load_state, preloadable, read_meta
from unilab.config import TrainConfig, as_plain, overlay
from unilab.errors import ConfigError, nearest
from unilab.spec import EnvSpec

FREE = frozenset(
    {
        "total_steps",
        "log_dir",
        "log_every",
        "save_every",
        "keep",
        "max_restarts",
        "affinity",
        "on_nan",
        "trace",
        "track",
        "trace_ticks",
        "trace_mb",
        "trace_cpu",
        "serial",
        "pacing.stall_limit_s",
        "pacing.start_limit_s",
        "pacing.shutdown_timeout_s",
        "evaluation.eval_every",
        "evaluation.eval_episodes",
        "evaluation.eval_at_start",
        "evaluation.stop_at_return",
        "evaluation.eval_max_steps",
    }
)
"""Keys that may differ without a word: they change nothing of what has been learnt."""

FIXED = frozenset(
    {
        "algo",
        "name",
        "seed",
        "init_from",
        "replay_from",
        "env.env",
        "env.num_envs",
        "env.critic_keys",
        "learner.hidden",
        "learner.critic_hidden",
        "learner.privileged_encoder",
        "flashsac.atoms",
        "learner.norm_obs",
        "learner.norm_reward",
        "learner.n_step",
        "fasttd3.atoms",
        "fastsac.atoms",
        "replay.buffer_size",
        "replay.learning_starts",
        "replay.warmup",
        "replay.sampler",
        "replay.per_alpha",
        "pacing.pacing",
        "pacing.num_collectors",
        "pacing.utd",
        "pacing.steps_per_tick",
        "pacing.max_unspent_chunks",
        "pacing.cold_start_debt",
    }
)
"""Keys that cannot differ: shapes and counts of what was saved depend on them."""

SUMMED_WITH = "learner.gamma"
"""Cannot differ either where rows are sums of several rewards."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a run goes on."""

    run_dir: Path
    checkpoint: Path
    state: Mapping[str, Any]
    notes: tuple[str, ...]  # what was passed over, in words
    beside: tuple[str, ...]  # all checkpoints that the run had then


@dataclass(frozen=True, slots=True)
class Preload:
    """Replay of another run."""

    checkpoint: Path
    rows: int


def open_resume(where: str, log_dir: Path) -> Resume:
    """Find and read the checkpoint that a run goes on from; nothing is changed.

    Args:
        where: a run directory, a checkpoint, its file, or "latest".
        log_dir: of which "latest" is the newest run.

    Raises:
        ConfigError: there is none, or it cannot be used; names the file and the reason.
    """
    path = log_dir / "latest" if where == "latest" else Path(where)
    if not path.exists():
        hint = f"; there is no run in log_dir={log_dir}" if where == "latest" else ""
        raise ConfigError(f"resume={where}: {path} does not exist{hint}")
    found = find_checkpoint(path.resolve())
    run_dir = found.path.parent.parent
    if found.path.parent.name != "checkpoints" or not (run_dir / "config.yaml").is_file():
        raise ConfigError(
            f"resume={where}: {found.path} is not inside of a run directory; start a new run from its weights with "
            "--init-from"
        )
    notes = tuple(f"{path} was passed over: {reason}" for path, reason in found.skipped)
    return Resume(run_dir, found.path, load_checkpoint(found.path), notes, _names(run_dir))


def check_unchanged(resume: Resume) -> None:
    """Refuse to go on where another process has saved since the checkpoint was read; this one holds the lock now.

    Raises:
        ConfigError: says so.
    """
    if _names(resume.run_dir) != resume.beside:
        raise ConfigError(f"resume: {resume.run_dir} has changed meanwhile, another process ran it; start again")


def _names(run_dir: Path) -> tuple[str, ...]:
    return tuple(path.name for path in list_checkpoints(run_dir / "checkpoints"))


def open_weights(where: Path, algo: str) -> Mapping[str, Any]:
    """The learner's state in a run, checkpoint or saved model, for a new run that starts from its weights.

    Raises:
        ConfigError: there is none, it cannot be read, or another algorithm made it.
    """
    if not where.exists():
        raise ConfigError(f"init_from={where} does not exist")
    state = load_state(where.resolve())
    made_by = yaml.safe_load(state["config"])["algo"]
    if made_by != algo:
        raise ConfigError(f"init_from={where} holds the networks of algo={made_by}, this run is of algo={algo}")
    learner: Mapping[str, Any] = state["learner"]
    return learner


def open_replay(where: Path, cfg: TrainConfig, spec: EnvSpec, row_width: int) -> Preload:
    """The replay that a new run starts with.

    Raises:
        ConfigError: there is none, it cannot be read, another env made it, or its rows stand for something else:
            other spaces, or other sums of rewards.
    """
    env = cfg.env.env
    if not where.exists():
        raise ConfigError(f"replay_from={where} does not exist")
    path = find_checkpoint(where.resolve()).path
    if (made_by := read_meta(path)["env"]) != env:
        raise ConfigError(f"replay_from={where} holds transitions of env={made_by}, this run is of env={env}")
    if found := other_spaces(path, spec):
        raise ConfigError(f"replay_from={where} holds transitions of other spaces than this run's env has: {found}")
    then = overlay(TrainConfig(), yaml.safe_load(load_checkpoint(path)["config"]), str(path)).learner
    same_sums = cfg.learner.n_step == 1 or cfg.learner.gamma == then.gamma
    if cfg.learner.n_step != then.n_step or not same_sums:
        raise ConfigError(
            f"replay_from={where} holds rows of n_step={then.n_step} and gamma={then.gamma:g}, "
            f"this run's have n_step={cfg.learner.n_step} and gamma={cfg.learner.gamma:g}"
        )
    return Preload(path, preloadable(path, row_width))


def other_spaces(checkpoint: Path, spec: EnvSpec) -> str:
    """What differs between the spaces of a checkpoint's env and these, in words; empty where nothing does."""
    now, then = spec.spaces(), read_meta(checkpoint).get("spaces", {})  # older ones do not say
    return ", ".join(f"{name}={then[name]} (now {now[name]})" for name in now if then.get(name, now[name]) != now[name])


def saved_config(resume: Resume) -> TrainConfig:
    """The config that the run was saved with; ``learning_starts`` as it was then, whatever the total is now."""
    cfg = overlay(TrainConfig(), yaml.safe_load(resume.state["config"]), str(resume.checkpoint))
    replay = dataclasses.replace(cfg.replay, learning_starts=int(resume.state["learning_starts"]))
    return dataclasses.replace(cfg, replay=replay)


def check_changes(cfg: TrainConfig, saved: TrainConfig, allowed: Collection[str]) -> None:
    """Refuse what must not differ from the saved run.

    Args:
        cfg: of the run that goes on.
        saved: from ``saved_config``.
        allowed: keys that may differ besides ``FREE``, with or without their section's name.

    Raises:
        ConfigError: names the keys, their values then and now, and what to do.
    """
    now, then = dotted(as_plain(cfg)), dotted(as_plain(saved))
    short = {key.rpartition(".")[2]: key for key in now}
    named = {name if name in now else short.get(name, name) for name in (n.replace("-", "_") for n in allowed)}
    if unknown := sorted(named - now.keys()):
        raise ConfigError(f"resume_allow: unknown key {unknown[0]!r}{nearest(unknown[0], [*now, *short])}")
    fixed = FIXED | ({SUMMED_WITH} if cfg.learner.n_step > 1 else set())
    if never := sorted(named & fixed):
        raise ConfigError(f"resume_allow: {never[0]} cannot differ: what was saved depends on it")
    changed = [key for key in now if not _same(now[key], then.get(key)) and key not in FREE | named]
    if not changed:
        return
    told = ", ".join(f"{key}={now[key]} (was {then.get(key)})" for key in changed)
    able = [key for key in changed if key not in fixed]
    way = f", or allow them: --resume-allow {' '.join(able)}" if len(able) == len(changed) else ""
    raise ConfigError(f"resume: the run was saved with other values: {told}; leave them out{way}")


def _same(now: Any, then: Any) -> bool:
    return bool(now == then) or yaml.safe_dump(now) == yaml.safe_dump(then)  # no NaN equals itself


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections as dotted keys; ``env_kwargs`` and the like stay one value."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        section = isinstance(value, Mapping) and not prefix and key != "env_kwargs"
        flat |= dotted(value, f"{key}.") if section else {f"{prefix}{key}": value}
    return flat

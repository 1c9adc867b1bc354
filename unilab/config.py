"""A run's configuration: the parts' own configs composed, presets laid over them, conflicts refused.

Precedence, last wins: class defaults, ``configs/<algo>.yaml`` (or ``<algo>_<preset>.yaml``, see ``presets``),
``--config FILE``, command line.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sysconfig
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from tyro.conf import OmitArgPrefixes as Flat  # fields become flags without the section's name

from unilab.algos.base import LearnerConfig
from unilab.algos.crossq import CrossQConfig
from unilab.algos.fastsac import FastSACConfig
from unilab.algos.fasttd3 import FastTD3Config
from unilab.algos.flashsac import FlashSACConfig
from unilab.algos.registry import ALGORITHMS
from unilab.algos.sac import SACConfig
from unilab.algos.td3 import TD3Config
from unilab.budget import ThreadBudget, thread_budget
from unilab.envs.bad_values import OnNan
from unilab.envs.registry import EnvConfig
from unilab.errors import ConfigError, nearest
from unilab.pacing import PacingConfig, Schedule, check_pacing
from unilab.replay import ReplayConfig
from unilab.strict_yaml import load_yaml
from unilab.telemetry.trace_ticks import parse_ticks
from unilab.telemetry.track import Service

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Evaluations of the deterministic policy, in a process of their own: on the way and of the final weights."""

    eval_every: int = 10_000
    """Env steps between evaluations; 0: only the final weights."""
    eval_episodes: int = 10
    """Episodes of each evaluation, on the same starts every time; 0: there is none."""
    eval_max_steps: int = 10_000
    """An evaluation episode that is this long is counted as it stands."""
    eval_at_start: bool = False
    """Evaluate the policy before its first update too."""
    stop_at_return: float | None = None
    """End the run after the first evaluation whose mean return is at least this; the learner then waits for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run."""

    algo: str = "sac"
    """Update rule: sac, td3, crossq, fasttd3, fastsac or flashsac."""
    total_steps: int = 60_000
    """Env steps of the whole run, prefill included; rounded up to whole ticks."""
    seed: int = 0
    """Seed of every random stream of the run."""
    device: str = "auto"
    """Where the learner computes: auto (CUDA if there is one), cpu, cuda, cuda:1."""
    threads: int | Literal["auto"] = "auto"
    """Threads of the whole run: one for each collector, the rest for the learner. auto: as many as there are cores; a
    learner with much to do for each env step has all of them."""
    affinity: Literal["none", "spread"] = "none"
    """spread: each collector keeps to a core of its own, the learner to the others where these do for its threads."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Updates as one compiled graph: auto where the run is long enough to win back the 20 to 60 s of compiling once."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the matrix products in updates; auto: bf16 in compiled updates on processors with instructions for it."""
    log_dir: Path = Path("runs")
    """Run directories go to <log-dir>/<env>/<algo>/."""
    name: str | None = None
    """Name of the run directory; default: start time and seed."""
    log_every: int = 1_000
    """Env steps between rows in TensorBoard and progress.csv."""
    save_every: int = 0
    """Env steps between checkpoints; 0 saves at the end only."""
    keep: int = 5
    """Newest checkpoints kept; 0 keeps all."""
    max_restarts: int = 0
    """Times that a collector which died or hangs is replaced by a new one, with fresh episodes; 0: it ends the run."""
    on_nan: OnNan = "stop"
    """What a NaN or an infinity from the env does: stop ends the run; skip does not store the transition, drops its
    episode, resets that env and counts it in rollout/skipped_steps. A learner that diverged always ends the run."""
    track: Service = "none"
    """Send the scalars to an experiment tracker too: wandb, or trackio, which keeps them on this machine."""
    trace: bool = False
    """Write trace.json, to be opened in Perfetto (ui.perfetto.dev) or read by `unilab trace-report`."""
    trace_ticks: str = "auto"
    """Ticks that are recorded: FIRST:LAST, or auto: all, thinned out in long runs to stay below the size limit."""
    trace_mb: int = 48
    """Size limit of trace.json in megabytes; what comes later is left out, and said."""
    trace_cpu: bool = False
    """Record the CPU time of each span too: what is missing from its wall time was waited or preempted."""
    serial: bool = False
    """One process, for a debugger; computes the same bits."""
    init_from: Path | None = None
    """Start with the networks and the normaliser of this run or checkpoint; nothing else of it goes on."""
    replay_from: Path | None = None
    """Start with the replay of this run or checkpoint, of the same env: its rows are sampled, but not counted."""

    env: Flat[EnvConfig] = field(default_factory=EnvConfig)
    learner: Flat[LearnerConfig] = field(default_factory=LearnerConfig)
    replay: Flat[ReplayConfig] = field(default_factory=ReplayConfig)
    pacing: Flat[PacingConfig] = field(default_factory=PacingConfig)
    evaluation: Flat[EvaluationConfig] = field(default_factory=EvaluationConfig)
    sac: Flat[SACConfig] = field(default_factory=SACConfig)
    td3: TD3Config = field(default_factory=TD3Config)
    crossq: CrossQConfig = field(default_factory=CrossQConfig)
    fasttd3: FastTD3Config = field(default_factory=FastTD3Config)
    fastsac: FastSACConfig = field(default_factory=FastSACConfig)
    flashsac: FlashSACConfig = field(default_factory=FlashSACConfig)

    @property
    def algo_config(self) -> Any:
        """The chosen algorithm's own config."""
        return getattr(self, self.algo)

    @property
    def learning_starts(self) -> int:
        """Transitions of the prefill; "auto" is resolved here."""
        wanted = self.replay.learning_starts
        return min(5_000, self.total_steps // 10) if wanted == "auto" else int(wanted)

    def schedule(self) -> Schedule:
        """The run's counts; refuses totals and sizes that cannot work."""
        pacing = self.pacing
        schedule = Schedule(
            num_envs=self.env.num_envs,
            steps_per_tick=pacing.steps_per_tick,
            learning_starts=self.learning_starts,
            total_steps=self.total_steps,
            # The decimal text, not the binary float: 0.37 means 37 updates per 100 steps.
            utd=Fraction(str(pacing.utd)),
            capacity=self.replay.buffer_size,
            uniform_prefill=self.replay.warmup == "uniform",
            num_collectors=pacing.num_collectors,
            ahead=pacing.ahead,
        )
        if pacing.cold_start_debt == "drop":
            return schedule
        owed = schedule.prefill
        if pacing.cold_start_debt != "keep" and schedule.utd:
            owed = min(owed, int(pacing.cold_start_debt / schedule.utd))
        return dataclasses.replace(schedule, debt_rows=owed)


def check(cfg: TrainConfig) -> None:
    """Refuse values that cannot work and options that would have no effect.

    Raises:
        ConfigError: names the field, its value and a fix.
    """
    _check_algo(cfg)
    _check_numbers(cfg)
    _check_trace(cfg)
    _check_run(cfg)
    _check_evaluation(cfg.evaluation)
    _check_pacing(cfg)
    cfg.schedule()


def _check_algo(cfg: TrainConfig) -> None:
    if cfg.algo not in ALGORITHMS:
        raise ConfigError(f"algo={cfg.algo!r} is not known{nearest(cfg.algo, ALGORITHMS)}")
    for name in ALGORITHMS:
        section = getattr(cfg, name)
        if name != cfg.algo and section != type(section)():
            changed = ", ".join(_changed(section))
            raise ConfigError(f"{changed} (of {name}) would have no effect with algo={cfg.algo}")
    usual = LearnerConfig()
    for name in ALGORITHMS[cfg.algo].without:
        if (value := getattr(cfg.learner, name)) != getattr(usual, name):
            raise ConfigError(f"{name}={value!r} would have no effect with algo={cfg.algo}")
    ent_coef = getattr(cfg.algo_config, "ent_coef", "auto")
    target_entropy = getattr(cfg.algo_config, "target_entropy", "auto")
    if not str(ent_coef).startswith("auto") and target_entropy != "auto":
        raise ConfigError(f"target_entropy={target_entropy} would have no effect with a fixed ent_coef={ent_coef}")


def _check_numbers(cfg: TrainConfig) -> None:
    positive = {
        "total_steps": cfg.total_steps,
        "num_envs": cfg.env.num_envs,
        "steps_per_tick": cfg.pacing.steps_per_tick,
        "utd": cfg.pacing.utd,
        "stall_limit_s": cfg.pacing.stall_limit_s,
        "start_limit_s": cfg.pacing.start_limit_s,
        "shutdown_timeout_s": cfg.pacing.shutdown_timeout_s,
        "batch_size": cfg.replay.batch_size,
        "buffer_size": cfg.replay.buffer_size,
        "log_every": cfg.log_every,
        "trace_mb": cfg.trace_mb,
        "eval_max_steps": cfg.evaluation.eval_max_steps,
    }
    for key, value in positive.items():
        if not value > 0:
            raise ConfigError(f"{key}={value} must be greater than 0")
    not_negative = {
        "eval_every": cfg.evaluation.eval_every,
        "seed": cfg.seed,
        "save_every": cfg.save_every,
        "keep": cfg.keep,
        "max_restarts": cfg.max_restarts,
        "learning_starts": cfg.learning_starts,
        "eval_episodes": cfg.evaluation.eval_episodes,
    }
    for key, value in not_negative.items():
        if value < 0:
            raise ConfigError(f"{key}={value} must not be negative")
    if not math.isfinite(cfg.pacing.utd):
        raise ConfigError(f"utd={cfg.pacing.utd} must be a finite number of updates per env step")
    if cfg.threads != "auto" and cfg.threads < 1:
        raise ConfigError(f"threads={cfg.threads} must be greater than 0, or auto")


def _check_trace(cfg: TrainConfig) -> None:
    if cfg.trace_ticks != "auto":
        parse_ticks(cfg.trace_ticks)
    if not cfg.trace:
        defaults = TrainConfig()
        for key in ("trace_ticks", "trace_mb", "trace_cpu"):
            if getattr(cfg, key) != getattr(defaults, key):
                raise ConfigError(f"{key}={getattr(cfg, key)} would have no effect without --trace")


def _check_run(cfg: TrainConfig) -> None:
    if cfg.serial and cfg.max_restarts:
        raise ConfigError(f"max_restarts={cfg.max_restarts} would have no effect in serial mode: there is one process")
    if cfg.name is not None and (not cfg.name.strip(". ") or "/" in cfg.name):
        raise ConfigError(f"name={cfg.name!r} must be the name of one directory")


def _check_pacing(cfg: TrainConfig) -> None:
    check_pacing(cfg.pacing)
    if cfg.serial and cfg.pacing.pacing == "free":
        raise ConfigError("pacing=free would have no effect in serial mode, where all take turns; leave one out")
    if cfg.pacing.lag_action == "drop" and cfg.learner.n_step > 1:
        raise ConfigError(
            f"lag_action=drop cannot work with n_step={cfg.learner.n_step}: rows of the chunk before would be thrown "
            "away, and kept of this one; use wait or accept"
        )


def _check_evaluation(cfg: EvaluationConfig) -> None:
    if not cfg.eval_episodes and (cfg.eval_at_start or cfg.stop_at_return is not None):
        name = "eval_at_start" if cfg.eval_at_start else "stop_at_return"
        raise ConfigError(f"{name} would have no effect with eval_episodes=0")


def threads_of(cfg: TrainConfig) -> ThreadBudget:
    """Threads by role; see ``budget.thread_budget``. A learner that keeps to its own cores does not get the others'.

    Raises:
        ConfigError: not a positive count.
    """
    return thread_budget(
        cfg.threads,
        update_gflop=update_gflop(cfg),
        updates_per_step=cfg.pacing.utd if cfg.affinity == "none" else 0.0,
        collectors=cfg.pacing.num_collectors,
    )


def update_gflop(cfg: TrainConfig) -> float:
    """Rough work of one update: 17 passes of the batch over the hidden layers of one critic, as in SAC."""
    widths = cfg.learner.critic_widths
    weights = ALGORITHMS[cfg.algo].inner_weights(widths) + 32 * widths[0]
    return 2e-9 * 17 * cfg.replay.batch_size * weights


# ---------------------------------------------------------------- files


def preset_path(algo: str, preset: str | None) -> Path:
    """The YAML file of a preset.

    Raises:
        ConfigError: no such preset; names those that exist.
    """
    folder = _configs_folder()
    known = {path.stem for path in folder.glob("*.yaml")}
    stem = algo if preset is None else f"{algo}_{preset}"
    if stem not in known:
        own = sorted(name.removeprefix(f"{algo}_") for name in known if name.startswith(f"{algo}_"))
        raise ConfigError(
            f"there is no preset {preset!r} for algo={algo}{nearest(preset or '', own)}; known: {', '.join(own)}"
        )
    return folder / f"{stem}.yaml"


def load_file(path: Path, base: TrainConfig) -> TrainConfig:
    """Lay a YAML file over a config.

    Raises:
        ConfigError: unreadable file, unknown key or wrong type, with the file's name.
    """
    return overlay(base, read_mapping(path), str(path))


def read_mapping(path: Path) -> Mapping[str, Any]:
    """The keys and values of a YAML file.

    Raises:
        ConfigError: it cannot be read, or is something else.
    """
    try:
        content = load_yaml(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, Mapping | None):
        raise ConfigError(f"{path} must be a mapping of keys to values")
    return content or {}


def dump(cfg: TrainConfig) -> str:
    """The whole config as YAML; ``load_file`` reads it back to an equal config."""
    return yaml.safe_dump(as_plain(cfg), sort_keys=False)


def overlay(config: T, values: Mapping[str, Any], where: str) -> T:
    """A copy of a config dataclass with some values replaced, nested mappings into nested configs.

    Raises:
        ConfigError: unknown key (with the nearest known one) or a value of the wrong type.
    """
    hints = get_type_hints(type(config))
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in hints:
            raise ConfigError(f"{where}: unknown key {key!r}{_belongs(config, key) or nearest(str(key), hints)}")
        current = getattr(config, key)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}: {key} must be a mapping, not {value!r}")
            changes[key] = overlay(current, value, f"{where}: {key}")
        else:
            changes[key] = _convert(value, hints[key], f"{where}: {key}")
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def _belongs(config: Any, key: Any) -> str:
    """Where a key belongs that is one of a section's."""
    sections = [(f.name, getattr(config, f.name)) for f in dataclasses.fields(config)]
    found = [name for name, section in sections if dataclasses.is_dataclass(section) and hasattr(section, str(key))]
    return f"; it belongs under {found[0]}:" if found else ""


def parse_count(text: str) -> int:
    """Whole numbers as people write them: 1000000, 1_000_000, 1e6, 1M, 64k.

    Raises:
        ValueError: not a whole number.
    """
    compact = text.strip().replace("_", "")
    if re.fullmatch(r"\d{1,3}(,\d{3})+", compact):  # 1,5 is no whole number in any country
        compact = compact.replace(",", "")
    factor = {"k": 10**3, "m": 10**6, "g": 10**9}.get(compact[-1:].lower(), 1)
    try:
        number = Fraction(compact[:-1] if factor > 1 else compact) * factor
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text!r} is not a number") from None
    if number.denominator != 1:
        raise ValueError(f"{text} is not a whole number")
    return int(number)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of two sources: those above win, key by key, also within mappings that both have."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = laid_over(below[key], above[key])
    return both


def parse_keywords(words: list[str]) -> dict[str, Any]:
    """``{"a": 1}`` as JSON, or ``a=1 b=true c=text``.

    Raises:
        ValueError: neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        value = json.loads(words[0])
        return dict(value)
    pairs = dict(word.partition("=")[::2] for word in words)
    if any("=" not in word for word in words):
        raise ValueError(f"expected JSON or KEY=VALUE, got {' '.join(words)}")
    return {key: _value(text) for key, text in pairs.items()}


def _value(text: str) -> Any:
    """YAML, but with 1e-3 as the number that people mean: YAML 1.1 wants 1.0e-3."""
    return float(text) if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text) else yaml.safe_load(text)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """A YAML value as the field's type; bool is never taken for a number."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for option in options:
            try:
                return _convert(value, option, where)
            except ConfigError:
                continue
    elif origin is Literal:
        if value in options:
            return value
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, options[0], where) for item in value)
    elif origin is dict and isinstance(value, Mapping):
        return dict(value)
    elif hint is type(None) and value is None:
        return None
    elif hint is bool and isinstance(value, bool):
        return value
    elif hint is int and not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return parse_count(str(value))
        except ValueError:
            pass
    elif hint is float and not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except ValueError:
            pass
    elif hint is str and isinstance(value, str):
        return value
    elif hint is Path and isinstance(value, str):
        return Path(value)
    raise ConfigError(f"{where}: {value!r} is not a {'list' if origin is tuple else getattr(hint, '__name__', hint)}")


def as_plain(value: Any) -> Any:
    """Dataclasses to dicts, tuples to lists, paths to strings: what YAML can hold."""
    if dataclasses.is_dataclass(value):
        return {f.name: as_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _changed(section: Any) -> list[str]:
    default = type(section)()
    names = [f.name for f in dataclasses.fields(section)]
    return [f"{n}={getattr(section, n)!r}" for n in names if getattr(section, n) != getattr(default, n)]


def _configs_folder() -> Path:
    """``configs/`` of the repository, or where a wheel puts it."""
    repository = Path(__file__).resolve().parent.parent / "configs"
    return repository if repository.is_dir() else Path(sysconfig.get_path("data")) / "share/unilab/configs"

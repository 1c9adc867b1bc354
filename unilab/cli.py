"""The command line: ``unilab train ...``, the same program as ``python scripts/train.py ...``."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from unilab.algos.registry import ALGORITHMS
from unilab.config import TrainConfig, check, laid_over, load_file, parse_count, parse_keywords
from unilab.doctor.examine import examine
from unilab.doctor.options import USAGE, take_options
from unilab.errors import ConfigError, UnilabError, nearest
from unilab.presets import AUTO, load_preset, with_size
from unilab.resume import Resume, check_changes, open_resume, saved_config
from unilab.session import run

ALIASES = {
    "-n": "--total-steps",
    "--total-timesteps": "--total-steps",
    "--n-timesteps": "--total-steps",
    "--n-envs": "--num-envs",
    "--env-id": "--env",
    "--lr": "--learning-rate",
    "--stall-limit": "--stall-limit-s",
    "--start-limit": "--start-limit-s",
    "--shutdown-timeout": "--shutdown-timeout-s",
}
"""Names that users of other libraries type."""

FLAT = ("env", "learner", "replay", "pacing", "evaluation", "sac")
"""Sections whose fields are flags without a prefix; the dotted name works too."""

_NOT_FOR_TYRO = ("--algo", "--preset", "--size", "--config", "--resume", "--resume-allow")
"""Flags that choose what the others change."""

_DESCRIPTION = """Train a policy. Underscores and dashes both work; numbers may be written 1e6, 1_000_000 or 1M.
Also: --preset NAME (sb3: the hyperparameters SB3 users know), --size auto|small|paper (widths, where a preset has both;
auto: small on a CPU, paper on a GPU; --hidden and --critic-hidden win), --config FILE (repeats a run from its
config.yaml), --resume RUN|CHECKPOINT|latest (goes on where it stopped; --total-steps stays the total) with
--resume-allow KEY ...
Aliases: -n, --total-timesteps, --n-envs, --env-id, --lr, --stall-limit, --start-limit, --shutdown-timeout."""

_USAGE = """usage: unilab train [OPTIONS]    train a policy
       unilab doctor [OPTIONS]   look at the machine, the env and the config of such a run first
       unilab sweep [OPTIONS]    train several seeds, one after the other, and sum them up
       unilab evaluate [OPTIONS] play episodes with a run's policy
       unilab plot RUN ...       draw returns over env steps and wall time
       unilab view [OPTIONS]     render a run's policy, or random actions, to an MP4 or a PNG
       unilab trace-report RUN   say where the time of a run with --trace went
       unilab export [OPTIONS]   put a run's policy into a bundle that needs neither unilab nor torch

`unilab train --help` lists the options, which doctor and sweep take too; the others list theirs with `--help`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the console script; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    commands = {
        "train": train_main,
        "doctor": doctor_main,
        "sweep": sweep_main,
        "evaluate": evaluate_main,
        "plot": plot_main,
        "view": view_main,
        "trace-report": trace_report_main,
        "export": export_main,
    }
    if words[:1] and words[0] in commands:
        return commands[words[0]](words[1:])
    if words in ([], ["-h"], ["--help"]):
        sys.stdout.write(_USAGE)
        return 0
    sys.stderr.write(f"unilab: unknown command {words[0]!r}{nearest(words[0], commands)}\n")
    return 2


def doctor_main(argv: Sequence[str]) -> int:
    """Examine what ``train`` with these arguments would do; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        sys.stdout.write(USAGE)
        return 0
    _see_current_folder()
    try:
        options, words = take_options(argv)
        cfg = parse(words)
    except UnilabError as error:
        sys.stderr.write(f"unilab: {error}\n")
        return error.exit_code
    return examine(cfg, options)


# What follows imports its package only when it is called: training needs none of them.


def sweep_main(argv: Sequence[str] | None = None) -> int:
    """Train the seeds that the arguments name and sum them up; returns the exit code."""
    from unilab.sweep.options import take_options as take_sweep
    from unilab.sweep.sweep import sweep

    return _carry_out(argv, lambda words: sweep(take_sweep(words, parse)))


def evaluate_main(argv: Sequence[str] | None = None) -> int:
    """Evaluate the policy that the arguments name; returns the exit code."""
    from unilab.evaluate.evaluate import evaluate
    from unilab.evaluate.options import parse as parse_evaluate

    return _carry_out(argv, lambda words: evaluate(parse_evaluate(words)))


def plot_main(argv: Sequence[str] | None = None) -> int:
    """Draw the curves of the runs that the arguments name; returns the exit code."""
    from unilab.plot.options import parse as parse_plot
    from unilab.plot.plot import plot

    return _carry_out(argv, lambda words: plot(parse_plot(words)))


def view_main(argv: Sequence[str] | None = None) -> int:
    """Render what the arguments say; returns the exit code."""
    from unilab.view.options import parse as parse_view
    from unilab.view.show import view

    return _carry_out(argv, lambda words: view(parse_view(words)))


def export_main(argv: Sequence[str] | None = None) -> int:
    """Write the bundle that the arguments describe; returns the exit code."""
    from unilab.export.bundle import export
    from unilab.export.options import parse as parse_export

    return _carry_out(argv, lambda words: export(parse_export(words)))


def _carry_out(argv: Sequence[str] | None, program: Callable[[list[str]], int]) -> int:
    """Run a program beside training; what it refuses is one sentence."""
    _see_current_folder()
    try:
        return program(list(sys.argv[1:] if argv is None else argv))
    except UnilabError as error:
        sys.stderr.write(f"unilab: {error}\n")
        return error.exit_code


def trace_report_main(argv: Sequence[str] | None = None) -> int:
    """Say where the time of traced runs went; returns the exit code."""
    from unilab.report.options import trace_report

    return trace_report(argv)


def train_main(argv: Sequence[str] | None = None) -> int:
    """Train as the arguments say; returns the exit code."""
    _see_current_folder()
    try:
        cfg, resume = parse_run(list(sys.argv[1:] if argv is None else argv))
    except UnilabError as error:
        sys.stderr.write(f"unilab: {error}\n")
        return error.exit_code
    except BrokenPipeError:  # `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return run(cfg, resume)


def _see_current_folder() -> None:
    """A module with the user's env usually lies where the command is typed.

    Workers get the same path: this package comes first, lest they import another folder ``unilab`` that lies there.
    """
    for folder in (str(Path(__file__).parents[1]), os.getcwd()):
        if folder not in sys.path:
            sys.path.append(folder)


def parse(argv: list[str]) -> TrainConfig:
    """Arguments to a checked config; see ``parse_run``."""
    return parse_run(argv)[0]


def parse_run(argv: list[str]) -> tuple[TrainConfig, Resume | None]:
    """Arguments to a checked config, and to the run that goes on, if one does.

    Raises:
        ConfigError: unknown name or bad value.
        SystemExit: ``--help`` (0) or a malformed value (2), after printing.
    """
    words, given = _canonical(argv)
    resume = _resume(words, given)
    saved = saved_config(resume) if resume else None
    default = saved or _of_its_env(_defaults(words, given), words)
    cfg = tyro.cli(
        TrainConfig,
        args=words,
        default=default,
        prog="train",
        description=_DESCRIPTION,
        registry=_registry(default.env.env_kwargs),
    )
    if saved:
        cfg = dataclasses.replace(cfg, algo=given.get("algo", cfg.algo))
        check_changes(cfg, saved, given.get("resume-allow", "").split())
    check(cfg)
    return cfg, resume


def _resume(words: Sequence[str], given: Mapping[str, str]) -> Resume | None:
    """The run that --resume names."""
    if "resume" not in given:
        if "resume-allow" in given:
            raise ConfigError("resume_allow has no effect without --resume")
        return None
    for other in ("preset", "size", "config"):
        if other in given:
            raise ConfigError(f"--{other} has no place beside --resume: the run goes on with its own config")
    return open_resume(given["resume"], Path(_given(words, "--log-dir", TrainConfig().log_dir)))


def _defaults(words: Sequence[str], given: Mapping[str, str]) -> TrainConfig:
    """What holds where no flag says otherwise: the class's defaults, the preset, --config, a size that is asked for."""

    def over(config: TrainConfig) -> TrainConfig:
        if "config" not in given:
            return config
        # A repeated run is another run: the name of the first one's directory is taken.
        return dataclasses.replace(load_file(Path(given["config"]), config), name=None)

    alone = over(TrainConfig())
    algo, preset = given.get("algo", alone.algo), given.get("preset")
    if algo not in ALGORITHMS:
        raise ConfigError(f"algo={algo!r} is not known{nearest(algo, ALGORITHMS)}")
    base = load_preset(algo, preset, device=str(_given(words, "--device", alone.device)))
    cfg = dataclasses.replace(over(base), algo=algo)
    size = given.get("size", AUTO)
    return cfg if size == AUTO else with_size(cfg, preset, size)


def _of_its_env(cfg: TrainConfig, words: Sequence[str]) -> TrainConfig:
    """Defaults without the options of an env that another one is asked for instead."""
    if _given(words, "--env", cfg.env.env) == cfg.env.env:
        return cfg
    return dataclasses.replace(cfg, env=dataclasses.replace(cfg.env, env_kwargs={}))


def _given(words: Sequence[str], flag: str, default: Any) -> Any:
    """The value of a flag before tyro reads it; the last one counts."""
    return next((value for name, value in reversed([*itertools.pairwise(words)]) if name == flag), default)


def _canonical(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Bring flags to the one name that tyro knows, and take out those that choose the defaults.

    Returns:
        The words for tyro, and the values of ``_NOT_FOR_TYRO``.
    """
    known = _flags()
    words: list[str] = []
    given: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not re.match(r"--?[A-Za-z]", word):
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        flag = _canonical_flag(flag)
        if flag not in known:
            raise ConfigError(f"unknown option {word.partition('=')[0]}{nearest(flag, known)}")
        if flag in _NOT_FOR_TYRO:
            if not equals:
                if not rest:
                    raise ConfigError(f"{flag} needs a value")
                value = rest.pop(0)
            while flag == "--resume-allow" and rest and not rest[0].startswith("-"):
                value += f" {rest.pop(0)}"
            before = f"{given.get('resume-allow', '')} " if flag == "--resume-allow" else ""
            given[flag.removeprefix("--")] = before + value
        elif value.lower() in ("true", "false"):
            words.append(flag if value.lower() == "true" else _negated(flag))
        else:
            words += [flag, value] if equals else [flag]
    return words, given


def _negated(flag: str) -> str:
    """``--trace`` to ``--no-trace``, ``--td3.x`` to ``--td3.no-x``."""
    section, dot, name = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{name}"


def _canonical_flag(flag: str) -> str:
    flag = ALIASES.get(flag, flag)
    if not flag.startswith("--"):
        return flag
    flag = "--" + flag[2:].replace("_", "-")
    flag = ALIASES.get(flag, flag)
    section, dot, name = flag[2:].partition(".")
    return f"--{name}" if dot and section in FLAT and name in _names_of(section) else flag


def _flags() -> set[str]:
    """Every flag that there is."""
    flags = {"--help", "-h", *_NOT_FOR_TYRO}
    for field in dataclasses.fields(TrainConfig):
        inner = _names_of(field.name)
        prefix = f"{field.name}." if inner and field.name not in FLAT else ""
        names = inner or [field.name.replace("_", "-")]
        flags |= {f"--{prefix}{name}" for name in names} | {f"--{prefix}no-{name}" for name in names}
    return flags


def _names_of(section: str) -> list[str]:
    """Flags of one section without its name; none if it is no section."""
    value = getattr(TrainConfig(), section)
    if not dataclasses.is_dataclass(value):
        return []
    return [field.name.replace("_", "-") for field in dataclasses.fields(value)]


def _registry(env_kwargs: Mapping[str, Any]) -> ConstructorRegistry:
    """How whole numbers and keyword arguments are read from the command line.

    Args:
        env_kwargs: that hold where the command line does not say otherwise, key by key.
    """
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def count(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
        if info.type is not int:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda words: parse_count(words[0]),
            is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
            str_from_instance=lambda value: [str(value)],
        )

    @registry.primitive_rule
    def keywords(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Any]] | None:
        if info.type_origin is not dict:
            return None
        return PrimitiveConstructorSpec(
            nargs="*",
            metavar="JSON|[KEY=VALUE ...]",
            instance_from_str=lambda words: laid_over(env_kwargs, parse_keywords(words)),
            is_instance=lambda value: isinstance(value, dict),
            str_from_instance=lambda value: [json.dumps(value)],
        )

    return registry

"""The options of ``unilab sweep``: its own few, and all of training."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unilab.arguments import count, read
from unilab.config import TrainConfig, parse_count
from unilab.errors import ConfigError
from unilab.rundir import runs_folder

USAGE = """usage: unilab sweep --seeds N|S,S,... [OPTIONS of unilab train]

Train one command with several seeds, one after the other, each as `unilab train` would; then the interquartile mean of
their final evaluations with its 95 % interval, on the console and in <log-dir>/<env>/<algo>/<name>.json. Runs are named
<name>_s<seed>; the same --name again goes on with the seeds that are not done.

  unilab sweep --seeds 5 --algo sac --env Hopper-v5           seeds 0 to 4 (--seed 10: 10 to 14)
  unilab sweep --seeds 3,7,11 --name long --total-steps 1M
"""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Which seeds of which command."""

    seeds: tuple[int, ...]
    cfg: TrainConfig  # of the first of them
    words: tuple[str, ...]  # for training, without seed and name
    name: str

    @property
    def folder(self) -> Path:
        """Where the runs and the result are."""
        return runs_folder(self.cfg.log_dir, self.cfg.env.env, self.cfg.algo)

    def run_name(self, seed: int) -> str:
        """Of the directory of a seed's run."""
        return f"{self.name}_s{seed}"

    def config(self, seed: int) -> TrainConfig:
        """That a seed is trained with."""
        return replace(self.cfg, seed=seed, name=self.run_name(seed))


def take_options(argv: Sequence[str], parse: Callable[[list[str]], TrainConfig]) -> SweepOptions:
    """Arguments to options, checked as those of training are.

    Args:
        argv: the arguments.
        parse: reads the options of training.

    Raises:
        ConfigError: an unknown name or a bad value; one sentence.
        SystemExit: ``--help``, after printing.
    """
    if {"-h", "--help"} & set(argv):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    words: list[str] = []
    rest, seeds = list(argv), ""
    while rest:
        flag, equals, value = (word := rest.pop(0)).partition("=")
        if flag == "--seeds":
            seeds = value if equals else rest.pop(0) if rest else ""
        elif flag.replace("_", "-") in ("--resume", "--resume-allow"):
            raise ConfigError(f"{flag} has no place in a sweep, which trains new runs; the same --name goes on with it")
        else:
            words.append(word)
    if not seeds:
        raise ConfigError("--seeds is missing: how many (--seeds 5), or which (--seeds 1,2,3)")
    cfg = parse(words)
    if not cfg.evaluation.eval_episodes:
        raise ConfigError("evaluation.eval_episodes=0 leaves nothing to sum up: a sweep compares final evaluations")
    name = cfg.name or f"sweep_{time.strftime('%Y%m%d-%H%M%S')}"
    return SweepOptions(_seeds(seeds, cfg.seed), cfg, tuple(_without(words)), name)


def _seeds(text: str, first: int) -> tuple[int, ...]:
    if "," not in text:
        try:
            return tuple(range(first, first + count(text)))
        except argparse.ArgumentTypeError as error:
            raise ConfigError(f"--seeds {error}") from error
    seeds = tuple(read(parse_count, word, "--seeds") for word in text.split(",") if word.strip())
    if len(set(seeds)) < len(seeds) or min(seeds, default=-1) < 0:
        raise ConfigError(f"--seeds {text} must be different numbers from 0 on")
    return seeds


def _without(words: Sequence[str]) -> list[str]:
    """The words without ``--seed`` and ``--name``, which every run of a sweep has of its own."""
    kept, rest = [], list(words)
    while rest:
        flag, equals, _ = (word := rest.pop(0)).partition("=")
        if flag in ("--seed", "--name"):
            if not equals:
                rest.pop(0)
        else:
            kept.append(word)
    return kept

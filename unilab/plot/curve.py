"""The returns of one run over env steps and seconds, from the files that it wrote."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from unilab.config import TrainConfig
from unilab.envs.module_id import one_line
from unilab.errors import ConfigError, UnilabError
from unilab.replay import ReplayConfig

EVALUATIONS, PROGRESS, CONFIG = "eval.jsonl", "progress.csv", "config.yaml"


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one run, in order."""

    env_steps: NDArray[np.float64]  # [n], strictly growing
    seconds: NDArray[np.float64]  # [n] wall time
    returns: NDArray[np.float64]  # [n]


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory and what was run in it."""

    path: Path
    config: Mapping[str, Any]  # as it is in the file: runs of other versions, with other keys, can be drawn too

    @property
    def env(self) -> str:
        """Its env id."""
        return str(self.config["env"]["env"])

    @property
    def prefill(self) -> int:
        """Env steps before learning began, but for rounding."""
        starts, total = self.config["replay"]["learning_starts"], int(self.config["total_steps"])
        return TrainConfig(total_steps=total, replay=ReplayConfig(learning_starts=starts)).learning_starts


def find_runs(words: Iterable[str], log_dir: Path) -> list[Run]:
    """The runs that are named, each once, folders replaced by the runs below them.

    Raises:
        ConfigError: a folder does not exist or holds no run, or a run's config cannot be read.
    """
    found: dict[Path, None] = {}
    for word in words:
        folder = log_dir / "latest" if word == "latest" else Path(word)
        if not folder.is_dir():
            raise ConfigError(f"{word}: there is no directory {folder}")
        files = [folder / CONFIG] if (folder / CONFIG).is_file() else sorted(folder.rglob(CONFIG))
        if not files:
            raise ConfigError(f"{word}: there is no run in {folder} (no {CONFIG})")
        found |= dict.fromkeys(file.parent.resolve() for file in files)  # "latest" is a link to another of them
    return [_open(path) for path in found]


def _open(path: Path) -> Run:
    try:
        run = Run(path, yaml.safe_load((path / CONFIG).read_text()))
        run.env, run.prefill, run.config["algo"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path / CONFIG} is not a run's config: {one_line(error)}") from error
    return run


def evaluations(run: Run) -> Curve | None:
    """Mean returns of the evaluations while training; None where there are less than two."""
    try:
        lines = (run.path / EVALUATIONS).read_text().splitlines(keepends=True)
    except OSError:
        return None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break  # is being written
        try:
            point = json.loads(line)
            rows.append([float(point[key]) for key in ("env_steps", "wall_time_s", "mean_reward")])
        except (ValueError, TypeError, KeyError) as error:
            raise UnilabError(f"{run.path / EVALUATIONS} line {number} is no evaluation: {error!r}") from error
    return _curve(rows)


def training(run: Run) -> Curve | None:
    """Mean returns of the last 100 training episodes; None where there are less than two points.

    Seconds count from the end of the prefill: each row has the speed since the row before it.
    """
    try:
        with open(run.path / PROGRESS, newline="") as file:
            table = list(csv.DictReader(file))
    except OSError:
        return None
    rows, seconds, before = [], 0.0, float(run.prefill)
    for row in table:
        steps, speed, value = (_number(row.get(name)) for name in ("env_steps", "time/fps", "rollout/ep_rew_mean"))
        if math.isfinite(speed) and speed > 0 and steps > before:
            seconds += (steps - before) / speed
            before = steps
        rows.append([steps, seconds, value])
    return _curve(rows)


def _curve(rows: Sequence[Sequence[float]]) -> Curve | None:
    """Rows of env steps, seconds, return; of several with the same env steps the last, none that is not finite."""
    by_steps = {row[0]: row for row in rows if all(map(math.isfinite, row))}
    if len(by_steps) < 2:
        return None
    table = np.array([by_steps[steps] for steps in sorted(by_steps)])
    return Curve(*table.T)


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan

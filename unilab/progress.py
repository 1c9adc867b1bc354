"""What a run says while it goes: which scalars exist, and when they are written."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unilab.errors import NonFinite
from unilab.telemetry.episodes import Episode, EpisodeWindow
from unilab.telemetry.every import Every, EverySeconds
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter
from unilab.telemetry.split import TimeSplit

CONSOLE_S = 10.0
FIRST_CONSOLE_S = 2.0


class Progress:
    """Collects per tick, writes when due.

    Args:
        reporter: console and files.
        metrics: the learner's scalars, filled by the loop.
        metric_names: of the env, in the order of the episode rows.
        log_every: env steps between writes to files.
    """

    def __init__(
        self, reporter: Reporter, metrics: Metrics, metric_names: Sequence[str], *, log_every: int
    ) -> None:
        self.episodes = EpisodeWindow()
        self._reporter = reporter
        self._metrics = metrics
        self._names = tuple(metric_names)
        self._due = Every(log_every)
        self._console_due = EverySeconds(FIRST_CONSOLE_S)
        self._split = {"learner": TimeSplit(), "collector": TimeSplit()}
        self._latest: dict[str, float] = {}
        self._rewards: list[float] = []
        self._ages: list[float] = []
        self._speed: dict[str, float] = {}
        self._written = -1
        self._since = (time.perf_counter(), 0, 0)  # time, env steps and updates at the last write

    def add_episodes(self, rows: NDArray[np.float64]) -> None:
        """Take finished episodes: env, return, length, terminated, truncated, then the env's metrics."""
        for _, reward_sum, length, terminated, truncated, *values in rows.tolist():
            metrics = {
                name: value for name, value in zip(self._names, values, strict=True) if np.isfinite(value)
            }
            self.episodes.add(
                Episode(
                    reward_sum=reward_sum,
                    length=int(length),
                    terminated=bool(terminated),
                    truncated=bool(truncated),
                    metrics=metrics,
                )
            )

    def add_tick(self, reward_mean: float, row_age: float) -> None:
        """Take what one tick adds: mean reward of its new rows, mean age of its batch in versions."""
        self._rewards.append(reward_mean)
        self._ages.append(row_age)

    def add_seconds(self, role: str, seconds: Mapping[str, float]) -> None:
        """Take where the time of "learner" or "collector" went."""
        self._split[role].add(seconds)

    def prefill(self, env_steps: int, total: int, reward_mean: float) -> None:
        """Say how far the prefill is, every few seconds."""
        if self._console_due.due() or env_steps >= total:
            self._reporter.console.line(
                phase="prefill",
                env_steps=env_steps,
                of=total,
                reward_per_step=reward_mean,
                **_short(self.episodes.scalars()),
            )
            self._console_due = EverySeconds(CONSOLE_S)

    def start_clock(self, env_steps: int) -> None:
        """Speeds count from here."""
        self._since = (time.perf_counter(), env_steps, 0)

    def write_if_due(self, env_steps: int, updates: int, *, force: bool = False) -> None:
        """Write scalars to the files when due by env steps, to the console when due by seconds.

        Raises:
            NonFinite: a loss is NaN or infinite.
        """
        due = (self._due.due(env_steps) or force) and env_steps > self._written
        speak = self._console_due.due() or force
        if due:
            self._latest = self._scalars(env_steps, updates)
        if due or speak:
            scalars = self._latest | self._speeds(env_steps, updates)
            self._reporter.write(env_steps, scalars, to_console=speak, to_files=due)
        if due:
            self._written = env_steps
            self._since = (time.perf_counter(), env_steps, updates)

    def write_evaluation(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of an evaluation."""
        self._reporter.write(env_steps, scalars, to_console=True, to_files=True)

    def _scalars(self, env_steps: int, updates: int) -> dict[str, float]:
        losses = self._metrics.drain()
        for name, value in losses.items():
            if not np.isfinite(value):
                raise NonFinite(
                    f"train/{name} became {value} by env step {env_steps:,} (update {updates:,}): the learner diverged; "
                    "a lower learning rate, --norm-obs or a smaller reward scale often helps"
                )
        wall_s = time.perf_counter() - self._since[0]
        shares = {
            f"perf/{role}_{name}_share": share
            for role, split in self._split.items()
            for name, share in split.take_shares(wall_s).items()
        }
        scalars = {
            **self.episodes.scalars(),
            **{f"train/{name}": value for name, value in losses.items()},
            "train/n_updates": float(updates),
            "time/total_timesteps": float(env_steps),
            **shares,
        }
        if self._rewards:
            scalars["rollout/reward_per_step"] = float(np.mean(self._rewards))
        ages = [age for age in self._ages if np.isfinite(age)]
        if ages:
            scalars["lag/row_age"] = float(np.mean(ages))
            scalars["lag/policy"] = 1.0  # lockstep: chunk t acts with version t - 2, tick t starts from t - 1
        self._rewards, self._ages = [], []
        return scalars

    def _speeds(self, env_steps: int, updates: int) -> dict[str, float]:
        """Env steps and updates over the wall time since the last write, nothing else."""
        then, steps_then, updates_then = self._since
        if env_steps > steps_then:
            wall_s = time.perf_counter() - then
            self._speed = {
                "time/fps": (env_steps - steps_then) / wall_s,
                "perf/updates_per_s": (updates - updates_then) / wall_s,
            }
        return self._speed


def _short(scalars: Mapping[str, float]) -> dict[str, float]:
    return {
        name.removeprefix("rollout/"): value
        for name, value in scalars.items()
        if name in ("rollout/ep_rew_mean", "rollout/ep_len_mean")
    }

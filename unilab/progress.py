"""What a run says while it goes: which scalars exist, and when they are written."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.errors import NonFinite
from unilab.telemetry.episodes import Episode, EpisodeWindow
from unilab.telemetry.every import Every, EverySeconds
from unilab.telemetry.lags import Histogram, Lags
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter

FIRST_CONSOLE_S = 2.0
SPEEDS_S = 9.5
"""What the console's speeds are taken over, at least, once a run is that old: from one plain line to the next."""

EDGE = 0.05
"""Mass of the targets on the ends of a categorical critic's support from which on returns do not fit between them."""
EDGE_ROWS = 3  # in a row, until the console says it: the scale of rewards may have to find itself first


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a run stands at a moment: sums since its start; speeds and shares are differences of two."""

    env_steps: int  # trained on so far; the x axis
    updates: int
    reward_sum: float = 0.0  # of all rows so far, env units
    policy_lag: int = 0  # versions between the learner and the policy that collected the newest rows trained on
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by role and span
    skipped: int = 0  # env steps that were not stored
    dropped: int = 0  # env steps whose weights were too old
    rejected: int = 0  # priorities that came too late
    debt_chunks: int | None = None  # free-running: chunks that are in and not trained on yet; None in lockstep
    resident: Mapping[str, int] = field(default_factory=dict)  # memory by role, bytes
    time_s: float = field(default_factory=time.perf_counter)

    def counts(self) -> dict[str, float]:
        """What must not happen, where it has; and the debt of a free-running learner."""
        names = {
            "rollout/skipped_steps": self.skipped,
            "lag/rejected_priorities": self.rejected,
            "lag/dropped_steps": self.dropped,
        }
        debt = {} if self.debt_chunks is None else {"lag/debt_chunks": float(self.debt_chunks)}
        return debt | {name: float(count) for name, count in names.items() if count}

    def memory(self) -> dict[str, float]:
        """Megabytes by role."""
        return {f"sys/{role}_rss_mb": nbytes / 1e6 for role, nbytes in self.resident.items()}


class Progress:
    """Collects per tick, writes when due.

    Args:
        reporter: console and files.
        metrics: the learner's scalars, filled by the loop.
        metric_names: of the env, in the order of the episode rows.
        log_every: when the files are due, by env steps.
        max_policy_lag: free-running: chunks with older weights are counted.
    """

    def __init__(
        self,
        reporter: Reporter,
        metrics: Metrics,
        metric_names: Sequence[str],
        *,
        log_every: Every,
        max_policy_lag: int | None = None,
    ) -> None:
        self.episodes = EpisodeWindow()
        self._reporter = reporter
        self._metrics = metrics
        self._names = tuple(metric_names)
        self._file_due = log_every
        self._console_s = reporter.console.interval_s
        self._console_due = EverySeconds(min(FIRST_CONSOLE_S, self._console_s))
        self._to_files = self._to_console = False
        self._age_sum, self._age_count = 0.0, 0
        self._lags = Lags(max_policy_lag)
        self._free = False  # free-running: lags are looked at in detail
        self._histograms: Mapping[str, Histogram] = {}
        self._mark: Mark | None = None  # at the last write to files
        self._recent: deque[Mark] = deque()  # at the last writes to the console
        self._rewards_from: tuple[int, float] | None = None  # env steps and sum of rewards at the last write to files
        self._written = -1
        self._prefilled = False
        self._scalars: dict[str, float] = {}
        self._edge_rows = 0  # in a row, with much of the targets on the ends of the support

    @property
    def scalars(self) -> Mapping[str, float]:
        """What was written last, by name; empty before the first write."""
        return self._scalars

    def add_episodes(self, rows: NDArray[np.float64]) -> None:
        """Take finished episodes: env, return, length, terminated, truncated, then the env's metrics."""
        for _, reward_sum, length, terminated, truncated, *values in rows.tolist():
            named = zip(self._names, values, strict=True)
            self.episodes.add(
                Episode(
                    reward_sum=reward_sum,
                    length=int(length),
                    terminated=bool(terminated),
                    truncated=bool(truncated),
                    metrics={name: value for name, value in named if math.isfinite(value)},
                )
            )

    def add_batch(self, tick: int, versions: NDArray[np.int64]) -> None:
        """Take a sample of the policy versions of a tick's rows; rows of uniform random actions count as version 0."""
        if versions.size:
            ages = [tick - 1 - max(version, 0) for version in versions.tolist()]
            self._age_sum += sum(ages)
            self._age_count += versions.size
            if self._free:
                self._lags.add_ages(ages)

    def add_lags(self, lags: Iterable[tuple[int, int]]) -> None:
        """Free-running: take how old the weights of each chunk were when it began and when it came in, in versions."""
        self._free = True
        self._lags.add(lags)

    def prefill(self, env_steps: int, total: int, reward_per_step: float) -> None:
        """Say how far the prefill is, every few seconds and, once, at its end."""
        ended = env_steps >= total
        if self._console_due.due() or (ended and not self._prefilled):
            self._prefilled = ended
            self._reporter.console.line(
                phase="prefill",
                env_steps=env_steps,
                of=total,
                reward_per_step=reward_per_step,
                **_short(self.episodes.scalars()),
            )
            self._console_due = EverySeconds(self._console_s)

    def due(self, env_steps: int) -> bool:
        """Whether the files are due by env steps, or the console by seconds."""
        self._to_files = self._file_due.due(env_steps)
        self._to_console = self._console_due.due()
        return self._to_files or self._to_console

    def write(self, now: Mark, *, last: bool = False) -> None:
        """Write what is due; the first call only starts the clocks, the last writes whatever is not written yet.

        Args:
            now: where the run stands.
            last: it ends here.

        Raises:
            NonFinite: a loss is NaN or infinite.
        """
        if self._mark is None:
            self._mark = now
            self._recent.append(now)
            self._rewards_from = self._rewards_from or (now.env_steps, now.reward_sum)
            return
        to_files = (self._to_files or last) and now.env_steps > self._written
        if to_files:
            self._scalars = self._sums(now) | _speeds(self._mark, now) | now.memory() | now.counts()
        if self._to_console or last:
            shown = self._scalars | self._recent_speeds(now) | now.memory()
            self._reporter.write(now.env_steps, shown, to_console=True, to_files=False)
        if to_files:
            self._reporter.write(now.env_steps, self._scalars, to_console=False, to_files=True)
            self._reporter.write_histograms(now.env_steps, self._histograms)
            self._written = now.env_steps
            self._mark = now
            self._rewards_from = now.env_steps, now.reward_sum
            self._look_at_support()

    def state_dict(self) -> dict[str, Any]:
        """What the scalars of the next write depend on, but for speeds: nested dicts, as copies."""
        return {
            "episodes": self.episodes.state_dict(),
            "metrics": self._metrics.state_dict(),
            "age_sum": self._age_sum,
            "age_count": self._age_count,
            "rewards_from": list(self._rewards_from or ()),
            "written": self._written,
        }

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Continue where ``state_dict`` was called; speeds and shares count from now on.

        Args:
            state: from ``state_dict``.
            device: of the learner.
        """
        self.episodes.load_state_dict(state["episodes"])
        self._metrics.load_state_dict(state["metrics"], device)
        self._age_sum, self._age_count = state["age_sum"], state["age_count"]
        self._written = int(state["written"])
        if state["rewards_from"]:
            env_steps, reward_sum = state["rewards_from"]
            self._rewards_from = int(env_steps), reward_sum

    def write_evaluation(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of an evaluation."""
        self._reporter.write_evaluation(env_steps, scalars)

    def _recent_speeds(self, now: Mark) -> dict[str, float]:
        """Since the last row of the files it may be a single tick, which has just waited for something."""
        recent = self._recent
        while len(recent) > 1 and now.time_s - recent[1].time_s >= SPEEDS_S:
            recent.popleft()
        recent.append(now)
        return _speeds(recent[0], now)

    def _look_at_support(self) -> None:
        """Say once that returns are cut off, if they are and stay so."""
        edge = self._scalars.get("train/support_edge", 0.0)
        self._edge_rows = self._edge_rows + 1 if edge > EDGE else 0
        if self._edge_rows == EDGE_ROWS:
            self._reporter.console.note(
                f"warning: returns do not fit the critics' support and are cut off: {edge:.0%} of the targets' mass "
                "lies on its ends; widen it (--fasttd3.v-min, --fasttd3.v-max, fastsac alike, --flashsac.value-bound)"
            )

    def _sums(self, now: Mark) -> dict[str, float]:
        """Everything but the speeds, since the last write."""
        losses = self._metrics.drain()
        for name, value in losses.items():
            if not math.isfinite(value):
                raise NonFinite(
                    f"train/{name} became {value} by env step {now.env_steps:,} (update {now.updates:,}): the learner "
                    "diverged; a lower learning rate, --norm-obs or a smaller reward scale often helps"
                )
        scalars = {
            **self.episodes.scalars(),
            **{f"train/{name}": value for name, value in losses.items()},
            "train/n_updates": float(now.updates),
            "time/total_timesteps": float(now.env_steps),
        }
        if self._rewards_from and now.env_steps > self._rewards_from[0]:
            rows = now.env_steps - self._rewards_from[0]
            scalars["rollout/reward_per_step"] = (now.reward_sum - self._rewards_from[1]) / rows
        if self._mark and now.env_steps > self._mark.env_steps:
            scalars |= _shares(self._mark, now)
        if self._age_count:
            scalars["lag/row_age"] = self._age_sum / self._age_count
            scalars["lag/policy"] = float(now.policy_lag)
        self._age_sum, self._age_count = 0.0, 0
        lags, self._histograms = self._lags.drain()
        return scalars | lags


def _speeds(then: Mark, now: Mark) -> dict[str, float]:
    """Env steps and updates over wall time, nothing else; none where there was no env step."""
    wall_s = now.time_s - then.time_s
    if now.env_steps == then.env_steps:
        return {}
    return {
        "time/fps": (now.env_steps - then.env_steps) / wall_s,
        "perf/updates_per_s": (now.updates - then.updates) / wall_s,
    }


def _shares(then: Mark, now: Mark) -> dict[str, float]:
    """Each role's wall time by span; with ``other`` the shares of a role add up to 1."""
    wall_s = now.time_s - then.time_s
    shares: dict[str, float] = {}
    for role, spans in now.seconds.items():
        before = then.seconds.get(role, {})
        own = {name: (total - before.get(name, 0.0)) / wall_s for name, total in spans.items()}
        own["other"] = 1.0 - sum(own.values())
        shares |= {f"perf/{role}_{name}_share": share for name, share in own.items()}
    return shares


def _short(scalars: Mapping[str, float]) -> dict[str, float]:
    names = ("rollout/ep_rew_mean", "rollout/ep_len_mean")
    return {name.removeprefix("rollout/"): scalars[name] for name in names if name in scalars}

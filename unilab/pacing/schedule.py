"""All counts of a run as pure arithmetic: who may do what when is decided by these and by nothing that is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

from unilab.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one grant lets a collector do."""

    number: int  # 0 is the prefill
    rounds: int  # steps of each env
    version: int | None  # weights that act; NEWEST: whatever was published last; None: uniform random actions


NEWEST = -1
"""Version of a chunk that acts with the newest weights there are when it begins."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Counts of the whole run, or (``share``) of one collector and its range of the ring.

    A tick counts the rows of one chunk: in lockstep of all collectors together, free-running of any one of them.
    """

    num_envs: int
    steps_per_tick: int
    learning_starts: int
    total_steps: int
    utd: Fraction
    capacity: int
    uniform_prefill: bool = True  # random actions; False: weight version 0 acts in the prefill too
    preloaded: int = 0  # rows of another run, numbered -preloaded to -1: sampled, but not counted
    num_collectors: int = 1  # that share envs and ring evenly
    ahead: int | None = None  # free-running: chunks that may be granted and not trained on yet; None: lockstep
    debt_rows: int = 0  # free-running: rows of the prefill that updates are owed for

    def __post_init__(self) -> None:
        if self.utd < 0:
            raise ConfigError(f"utd={float(self.utd):g} is negative")
        self._check_shares()
        if self.total_steps <= self.prefill:
            raise ConfigError(
                f"total_steps={self.total_steps:,} ends within the prefill of {self.prefill:,} transitions "
                "(learning_starts, in whole rounds of all envs): nothing would be learnt; "
                "raise total_steps or lower learning_starts"
            )
        chunks, each = self._held_chunks(), self.num_envs * self.steps_per_tick
        if self.capacity < chunks * each:
            raise ConfigError(
                f"buffer_size={self.capacity:,} is smaller than {'two' if chunks == 2 else chunks} chunks of "
                f"{each:,} rows (num_envs x steps_per_tick); use at least {chunks * each:,}"
            )

    def _check_shares(self) -> None:
        n, envs = self.num_collectors, self.num_envs
        if envs % n:
            fitting = [k for k in range(1, envs + 1) if envs % k == 0]
            raise ConfigError(
                f"num_envs={envs} cannot be shared evenly by num_collectors={n}; it can by "
                f"{', '.join(map(str, fitting))}"
            )

    def _held_chunks(self) -> int:
        """Chunks of every collector that the ring must hold: what may be written beside what is drawn from."""
        return 2 if self.ahead is None else self.ahead + 2

    @cached_property
    def chunk_rows(self) -> int:
        """Rows that a tick counts: G in lockstep."""
        rows = self.num_envs * self.steps_per_tick
        return rows if self.ahead is None else rows // self.num_collectors

    @cached_property
    def prefill(self) -> int:
        """P: rows of the prefill, whole rounds, at least one."""
        return max(1, ceil(self.learning_starts / self.num_envs)) * self.num_envs

    @cached_property
    def debt_ticks(self) -> int:
        """First ticks that wait for no rows: the updates that are owed for the prefill."""
        return self.debt_rows // self.chunk_rows

    @property
    def total_ticks(self) -> int:
        """Ticks until ``total_steps`` env steps, the last chunk whole."""
        return self.debt_ticks + ceil((self.total_steps - self.prefill) / self.chunk_rows)

    @property
    def total_chunks(self) -> int:
        """Chunks that are collected after the prefill, by all collectors together where each counts by itself."""
        return self.total_ticks - self.debt_ticks

    def progress(self, chunk: int) -> float:
        """Share of the run's ticks that is done when this chunk begins, within [0, 1]; 0 in the prefill."""
        return min(1.0, max(0, chunk - 1) / self.total_ticks)

    def watermark(self, tick: int) -> int:
        """W(t): rows counted once tick t has what it waits for."""
        return self.prefill + max(0, tick - self.debt_ticks) * self.chunk_rows

    def domain(self, tick: int) -> tuple[int, int]:
        """Rows [low, high) that batch t is drawn from: never one that chunk t+1 overwrites."""
        high = self.watermark(tick)
        return self.oldest(tick), high

    def oldest(self, chunk: int) -> int:
        """First row that may still be drawn once this chunk is in; the next chunk overwrites what is older."""
        return max(-self.preloaded, self.watermark(chunk) + self.chunk_rows - self.capacity)

    def updates(self, tick: int) -> int:
        """Updates of tick t."""
        return self.updates_until(tick) - self.updates_until(tick - 1)

    def updates_until(self, tick: int) -> int:
        """Updates of ticks 1..t together: floor(utd x rows counted), where the prefill counts as far as it is owed."""
        # In integers: the same floor, and this runs in every tick.
        rows = tick * self.chunk_rows + (self.debt_rows % self.chunk_rows if tick > 0 else 0)
        return self.utd.numerator * rows // self.utd.denominator

    @property
    def max_updates(self) -> int:
        """Most updates that any tick has."""
        return ceil(self.utd * (self.chunk_rows + self.debt_rows % self.chunk_rows))

    def chunk(self, number: int) -> Chunk:
        """What chunk ``number`` is: the prefill, or a chunk that acts with the version published last before it."""
        if number == 0:
            return Chunk(0, self.prefill // self.num_envs, None if self.uniform_prefill else 0)
        return Chunk(number, self.steps_per_tick, NEWEST if self.ahead is not None else max(number - 2, 0))

    @cached_property
    def shares(self) -> tuple[Schedule, ...]:
        """Counts of each collector and its range of the ring, by its own chunks; the whole where there is one."""
        n = self.num_collectors
        if n == 1:
            return (self,)
        chunks = self.total_chunks if self.ahead is None else ceil(self.total_chunks / n)
        prefill, envs = self.prefill // n, self.num_envs // n
        return tuple(
            replace(
                self,
                num_envs=envs,
                learning_starts=prefill,
                total_steps=prefill + chunks * envs * self.steps_per_tick,
                utd=self.utd * n,
                capacity=_part(self.capacity, n, i),
                preloaded=_part(self.preloaded, n, i),
                num_collectors=1,
                debt_rows=0,
            )
            for i in range(n)
        )


def _part(total: int, parts: int, index: int) -> int:
    """As even as whole numbers allow, the larger ones first."""
    return total // parts + (index < total % parts)

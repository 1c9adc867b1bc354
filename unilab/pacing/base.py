"""What every way of pacing has in common: its options, its counters, and the two sides as protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from unilab.errors import ConfigError, WorkerDied
from unilab.pacing.schedule import Chunk
from unilab.pacing.waiting import Look, Pulse, stuck, wait_while_alive
from unilab.shm import Bell, Counters, Waiter

COUNTERS = ("stop", "granted", "parked", "version", "phase", "rounds", "finished", "acting")
"""What the learner and one collector share: the learner writes the first four, the collector the others."""

PHASES = ("start", "make_envs", "reset", "wait_grant", "fetch", "act", "env_step", "append", "pack")
"""What a collector may be doing, by the number in the counter ``phase``."""

IDLE = 2**62
"""In the counter ``acting``: no chunk is being collected with weights that could grow old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingConfig:
    """How many updates for how many env steps, and who waits how long."""

    pacing: Literal["lockstep", "free"] = "lockstep"
    """lockstep: one chunk of every collector a tick, the same bits in every run. free: collectors run ahead within a
    credit, one chunk of any of them a tick; for envs of uneven speed. Not reproducible bit by bit."""
    num_collectors: int = 1
    """Processes that step envs, each with an even share of num_envs and a range of the ring to itself."""
    utd: float = 1.0
    """Updates per env step after the prefill; kept exactly over the run, fractions too."""
    steps_per_tick: int = 1
    """Steps of each env per chunk; a tick trains on one batch for each chunk (free-running: of any one collector)."""
    max_unspent_chunks: int | Literal["auto"] = "auto"
    """Free-running: chunks that may be granted and not trained on yet, all collectors together; auto: two each."""
    max_policy_lag: int | None = None
    """Free-running: ticks that the weights which collected a chunk may be old when it comes in; None: any."""
    lag_action: Literal["accept", "drop", "wait"] = "accept"
    """What a chunk above max_policy_lag means. accept: it counts, and is counted in lag/over_bound. drop: its env steps
    are thrown away. wait: the learner waits with its next version instead, so there is none."""
    publish_interval: int = 1
    """Free-running: ticks from one weight publication to the next."""
    cold_start_debt: Literal["drop", "keep"] | int = "drop"
    """Free-running: updates that are owed for the prefill. drop: none. keep: utd of them per env step. A number: at
    most so many."""
    stall_limit_s: float = 60.0
    """Seconds without a step from a collector before the run ends."""
    start_limit_s: float = 300.0
    """Seconds that a worker may take to import its modules and to make and reset its envs."""
    shutdown_timeout_s: float = 5.0
    """Seconds that an interrupted run waits for the chunk that is being collected; then it saves and ends without."""

    @property
    def ahead(self) -> int | None:
        """Free-running: most chunks that are granted and not trained on; None in lockstep."""
        if self.pacing == "lockstep":
            return None
        return 2 * self.num_collectors if self.max_unspent_chunks == "auto" else self.max_unspent_chunks


def check_pacing(cfg: PacingConfig) -> None:
    """Refuse values that cannot work together and options that would have no effect.

    Raises:
        ConfigError: names the field, its value and a fix.
    """
    if cfg.num_collectors < 1:
        raise ConfigError(f"num_collectors={cfg.num_collectors} must be at least 1")
    if cfg.pacing == "lockstep":
        usual = PacingConfig()
        for name in ("max_unspent_chunks", "max_policy_lag", "lag_action", "publish_interval", "cold_start_debt"):
            if (value := getattr(cfg, name)) != getattr(usual, name):
                raise ConfigError(f"{name}={value} would have no effect with pacing=lockstep; use --pacing free")
        return
    _check_free(cfg)


def _check_free(cfg: PacingConfig) -> None:
    assert cfg.ahead is not None
    if cfg.ahead < cfg.num_collectors:
        raise ConfigError(
            f"max_unspent_chunks={cfg.ahead} leaves some of {cfg.num_collectors} collectors without a chunk for ever; "
            f"use at least {cfg.num_collectors}"
        )
    if cfg.publish_interval < 1:
        raise ConfigError(f"publish_interval={cfg.publish_interval} must be at least 1")
    if isinstance(cfg.cold_start_debt, int) and cfg.cold_start_debt < 0:
        raise ConfigError(f"cold_start_debt={cfg.cold_start_debt} must not be negative")
    lag, interval = cfg.max_policy_lag, cfg.publish_interval
    if lag is None:
        if cfg.lag_action != "accept":
            raise ConfigError(f"lag_action={cfg.lag_action} would have no effect without --max-policy-lag")
        return
    if lag < 1:
        raise ConfigError(f"max_policy_lag={lag} cannot be kept by collectors that run ahead; use --pacing lockstep")
    # A chunk that begins just before a publication is interval versions old right after it.
    largest = lag if cfg.lag_action == "wait" else lag + 1
    if interval > largest:
        raise ConfigError(
            f"publish_interval={interval} and max_policy_lag={lag} contradict each other: weights would be too old "
            f"before the next ones come; use --publish-interval {largest} or less, or a larger --max-policy-lag"
        )


class Line:
    """What the learner has of one collector: counters and a bell.

    Args:
        counters: shared; see ``COUNTERS``.
        bell: of the collector.
        stall_limit_s: seconds without a round before a wait gives up.
        who: names the collector in errors.
    """

    def __init__(self, counters: Counters, bell: Bell, stall_limit_s: float, who: str) -> None:
        self.counters = counters
        self.bell = bell
        self.stall_limit_s = stall_limit_s
        self.who = who

    @property
    def granted(self) -> int:
        """Newest chunk that it may run; -1 before the prefill."""
        return self.counters["granted"]

    @property
    def finished(self) -> int:
        """Newest chunk whose rows are all in; -1 before the prefill."""
        return self.counters["finished"]

    def grant(self, number: int) -> None:
        """Let it run all chunks up to this one."""
        self.counters["granted"] = number
        self.bell.ring()

    def ask_state(self) -> int:
        """Ask a collector that has finished all that was granted for its state: it calls its ``parked``.

        Returns:
            The number of the question; an answer to an earlier one may still come.
        """
        self.counters["parked"] += 1
        self.bell.ring()
        return self.counters["parked"]

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once its chunk ``number`` is in; see ``Pacer.wait_finished``."""
        if self.finished < number:
            self.wait(waiter, lambda: self.finished >= number, f"chunk {number}", look)

    def wait_acting(self, oldest: int, waiter: Waiter) -> None:
        """Return once it collects nothing with weights older than this version."""
        self.wait(waiter, lambda: self.counters["acting"] >= oldest, "a chunk with old weights")

    def wait(self, waiter: Waiter, condition: Callable[[], bool], what: str, look: Look | None = None) -> None:
        """Wait for something that this collector does."""
        wait_while_alive(
            waiter,
            condition,
            lambda: self.counters["rounds"],
            what,
            who=self.who,
            doing=lambda: PHASES[self.counters["phase"]],
            stall_limit_s=self.stall_limit_s,
            look=look,
        )

    def pulse(self) -> Pulse:
        """How long it has been silent, from now on."""
        return Pulse(lambda: self.counters["rounds"])

    def stuck(self, silent_s: float, what: str) -> WorkerDied:
        """The error for a collector that has been silent for too long."""
        doing = PHASES[self.counters["phase"]]
        return stuck(self.who, silent_s, what, doing, self.counters["rounds"])


class Pacer(Protocol):
    """The learner's side of pacing."""

    def grant(self, number: int) -> None:
        """Batch ``number - 1`` was taken: let collectors go on; returns without waiting. 0 grants the prefill."""

    def wait_finished(self, number: int, waiter: Waiter, look: Look | None = None) -> None:
        """Return once batch ``number`` has the rows that it counts; meanwhile call ``look`` every now and then."""

    def counted(self, number: int) -> tuple[int, ...]:
        """Newest chunk of each collector that batch ``number`` counts; of the newest one waited for and two before."""

    def reach(self, number: int) -> tuple[int, ...]:
        """Newest chunk of each collector that may be written once ``grant(number)`` was given and no later one."""

    def parked(self, tick: int) -> bool:
        """Whether, after tick ``tick``, nothing is in flight: all that was granted is in."""

    def wait_parked(self, tick: int, waiter: Waiter) -> None:
        """Return once that is so."""

    def admit(self, version: int, waiter: Waiter) -> None:
        """Return once the learner may have this version: no chunk in flight grows too old by it."""

    def published(self, version: int) -> None:
        """The learner has this version."""

    @property
    def debt(self) -> int | None:
        """Chunks that are in and not trained on yet; None where there can be none."""


class ChunkSource(Protocol):
    """The collector's side of pacing."""

    def next_chunk(self) -> Chunk | None:
        """The next granted chunk; None once the learner asks to stop."""

    def round_done(self) -> None:
        """Every env has stepped once and its rows are in: a sign of life."""

    def finished(self, chunk: Chunk) -> None:
        """All rows of the chunk are in the ring."""

"""A collector: owns its envs and a CPU copy of the policy, and is the only writer of its ring."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unilab.algos.base import Policy, PolicySpec
from unilab.algos.registry import make_policy
from unilab.envs.bad_values import OnNan, make_rule
from unilab.envs.base import BatchEnv, Groups, SavesState, closing_env
from unilab.envs.finite import check_finite_action
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.returns import DiscountedReturns, NoReturns
from unilab.envs.rollout import EpisodeStats
from unilab.errors import NonFinite
from unilab.pacing import NEWEST, PHASES, Chunk, ChunkSource, FreeCollector, LockstepCollector, Schedule
from unilab.replay import HostSlots, Ring, UniformSampler, make_rows
from unilab.replay.ring import RANDOM_POLICY
from unilab.seeding import stream
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.trace import Span, Tracer, TraceSpec
from unilab.weights import FlatState, WeightBlock, WeightReader
from unilab.workers.child import Link
from unilab.workers.stats import CollectorStats

_PHASE = {name: number for number, name in enumerate(PHASES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorJob:
    """What a collector needs; picklable, the shared parts as descriptors."""

    index: int
    env: EnvConfig  # of its own envs
    policy: PolicySpec
    schedule: Schedule  # of the run
    drop_lag: int | None  # throw chunks away whose weights are older when they come in; None: keep all
    seed: int
    threads: int
    on_nan: OnNan
    ring: Ring
    slots: HostSlots
    batch_size: int
    drawn: bool  # the learner says which rows a batch has
    weights: WeightBlock
    counters: Counters
    stats: CollectorStats
    bell: Bell  # its own
    listeners: tuple[Bell, ...]  # of those who wait for its chunks
    log_dir: Path | None  # of a simulator's own log
    trace: TraceSpec | None  # None: no trace
    restart: int = 0  # collectors of its index before this one: seeds and noise are its own
    state: Mapping[str, Any] | None = None  # of the collector that this one continues; None: there is none

    @property
    def name(self) -> str:
        """In traces, errors and lists of processes."""
        return f"collector-{self.index}"


class Collector:
    """Steps the envs for one chunk after the other.

    Args:
        env: all its envs.
        policy: acts, on weights fetched into it.
        job: shared parts and seeds.
        trace: spans ``fetch``, ``act``, ``env_step``, ``append``, ``pack``.
    """

    def __init__(self, env: BatchEnv, policy: Policy, job: CollectorJob, trace: Tracer) -> None:
        self._env = env
        self._policy = policy
        self._ring = job.ring
        self._slots = job.slots
        self._schedule = job.schedule
        self._share = job.schedule.shares[job.index]
        self._drop_lag = job.drop_lag
        self._batch_size = job.batch_size
        self._drawn = job.drawn
        self._sampler = UniformSampler(stream(job.seed, "sample"))
        self._stats = job.stats
        self._trace = trace
        self._counters = job.counters
        self._reader = WeightReader(job.weights, FlatState(policy.module))
        self._warmup = np.random.default_rng(stream(job.seed, "warmup", job.index))
        self._rows = make_rows(job.ring, env.num_envs, job.policy.learner.gamma)
        self._episodes = EpisodeStats(env.num_envs, env.spec.metric_names)
        learner = job.policy.learner
        self._returns = DiscountedReturns(env.num_envs, learner.gamma) if learner.norm_reward else NoReturns()
        self._env_steps = np.zeros(env.num_envs, np.int64)
        self._ended = np.zeros(env.num_envs, np.bool_)
        self.continued = False
        """Whether the envs go on with the episodes of an earlier collector."""
        self._first_env = job.index * env.num_envs
        self._rule = make_rule(job.on_nan, env, self._first_env, lambda what: _say(job.name, what))
        self._obs = self._rule.check_reset(self._begin(job.state), self._env_steps)

    def run(self, chunk: Chunk, round_done: Callable[[], None]) -> None:
        """Run a chunk, and in lockstep pack the batch that is drawn after it; again, if its weights grew too old."""
        while True:
            # Looked at first: this process may be kept waiting anywhere after it, and the learner counts on meanwhile.
            learner = self._counters["version"]
            version = self._fetch(chunk.version)
            launched = _lag(learner, version)
            begin = self._ring.cursor
            self._collect(chunk, version, round_done)
            lags = launched, _lag(self._counters["version"], version)
            if self._drop_lag is None or lags[1] <= self._drop_lag:
                break
            self._stats.drop_chunk(chunk.number, self._ring.cursor - begin)
            self._ring.rewind(begin)
        if chunk.number and self._schedule.ahead is None:
            with self._phase("pack", tick=chunk.number):
                self._pack(chunk.number)
        self._counters["phase"] = _PHASE["wait_grant"]
        seconds = {name: ns / 1e9 for name, ns in self._trace.take_totals().items()}
        self._stats.finish_chunk(chunk.number, seconds, self._returns.take(), lags)
        if self._schedule.ahead is not None:
            self._trace.counter("chunk lag", at_launch=lags[0], at_arrival=lags[1])

    def _fetch(self, wanted: int | None) -> int:
        """The version that is to act, with its weights in the policy."""
        if wanted is None:
            return RANDOM_POLICY
        with self._phase("fetch", version=wanted):
            return self._reader.fetch_if_newer() if wanted == NEWEST else self._reader.fetch(wanted)

    def _collect(self, chunk: Chunk, version: int, round_done: Callable[[], None]) -> None:
        """Each round appends one row per env.

        With n-step returns, rows are late: whoever begins, or starts anew, does ``n_step - 1`` rounds more.
        """
        self._policy.at(self._share.progress(chunk.number))
        act = self._random if chunk.version is None else self._explore
        for _ in range(self._rows.missing + chunk.rounds):
            with self._phase("act"):
                action = act()
                check_finite_action(action, version, self._first_env)
            with self._phase("env_step"):
                step = self._env.step(action)
                self._env_steps += 1
                skipped = self._rule.check(step, self._env_steps)
                if skipped is not None and not self._rows.can_repeat:
                    raise NonFinite(
                        "the very first env steps had it: no transition is there yet to stand in for theirs"
                    )
            with self._phase("append"):
                self._rows.append(self._obs, action, step, policy_version=version, repeat=skipped)
                self._stats.add_round(float(step.reward.sum()), 0 if skipped is None else int(skipped.sum()))
                self._stats.add_episodes(chunk.number, self._episodes.add(step))
            self._obs = step.obs
            self._ended = step.terminated | step.truncated
            if skipped is not None:
                self._episodes.drop(skipped)
                self._ended |= skipped
            self._returns.add(step.reward, self._ended, skipped)
            round_done()

    def _phase(self, name: str, **args: object) -> Span:
        """A span whose name the learner can see while it lasts, or hangs."""
        self._counters["phase"] = _PHASE[name]
        return self._trace.span(name, **args)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides future chunks, as copies; ``env`` is None where the backend cannot save its state."""
        return {
            "env": self._env.state() if isinstance(self._env, SavesState) else None,
            "rows": self._rows.state_dict(),
            "episodes": self._episodes.state_dict(),
            "returns": self._returns.state_dict(),
            # Arrays: tensors would travel through shared memory with names, a socket and a thread.
            "policy": {name: value.numpy() for name, value in self._policy.explore_state().items()},
            "env_steps": self._env_steps.copy(),
            "ended": self._ended.copy(),
        }

    def _begin(self, state: Mapping[str, Any] | None) -> Groups:
        """Observations to start with: of fresh envs, or of those that an earlier collector left.

        Where their state is not known, the envs start new episodes; the noise goes on all the same, and env steps whose
        rows were not written yet are not lost.
        """
        if state is not None:
            self._policy.load_explore_state({name: torch.from_numpy(x) for name, x in state["policy"].items()})
            self._env_steps[:] = state["env_steps"]
            continues = state["env"] is not None and isinstance(self._env, SavesState)
            self._rows.load_state_dict(state.get("rows", {}), continues=continues)  # older checkpoints have none
            if continues:
                assert isinstance(self._env, SavesState)
                self._episodes.load_state_dict(state["episodes"])
                self._returns.load_state_dict(state.get("returns", {}))  # older checkpoints have none
                self._ended[:] = state["ended"]
                self.continued = True
                return self._env.restore(state["env"])
        self._counters["phase"] = _PHASE["reset"]
        return self._env.reset()

    def _pack(self, tick: int) -> None:
        shares = self._schedule.shares
        rows = self._schedule.updates(tick) * self._batch_size
        if self._drawn:
            watermark = self._schedule.watermark(tick)
            if len(shares) == 1:
                self._slots.pack_cells([self._ring], tick=tick, rows=rows, watermark=watermark)
            else:
                self._slots.pack_own_cells(self._ring, tick=tick, rows=rows, watermark=watermark)
            return
        domain = [share.domain(tick) for share in shares]
        if len(shares) == 1:
            self._slots.pack([self._ring], self._sampler, tick=tick, rows=rows, domain=domain)
        else:
            self._slots.pack_own(self._ring, self._sampler, tick=tick, rows=rows, domain=domain)

    def _explore(self) -> np.ndarray:
        return self._policy.explore(self._obs, self._ended)

    def _random(self) -> np.ndarray:
        shape = (self._env.num_envs, self._env.spec.action_dim)
        return self._warmup.uniform(-1.0, 1.0, shape).astype(np.float32)


def _lag(learner: int, version: int) -> int:
    """Versions between the learner, free-running, and weights; random actions never grow old."""
    return 0 if version == RANDOM_POLICY else max(0, learner - version)


def _say(name: str, what: str) -> None:
    sys.stderr.write(f"{name}: {what}\n")
    sys.stderr.flush()


@contextmanager
def open_collector(job: CollectorJob, trace: Tracer) -> Iterator[Collector]:
    """Build envs and policy from a job, the same in a worker and in serial mode; closes the envs at the end."""
    job.counters["phase"] = _PHASE["make_envs"]
    collectors = job.schedule.num_collectors
    # Noise of its own for each collector, and after each restart.
    policy = make_policy(job.policy, seed=job.seed, index=job.restart * collectors + job.index)
    made = make_env(
        job.env,
        seed=job.seed,
        first_index=job.index * job.env.num_envs,
        before=job.restart * job.schedule.num_envs,
        spec=job.policy.env,
        threads=job.threads,
        log_dir=job.log_dir,
    )
    with closing_env(made) as env:
        yield Collector(env, policy, job, trace)


def collect(collector: Collector, source: ChunkSource, trace: Tracer, ticks_per_chunk: int = 1) -> None:
    """Run granted chunks until told to stop; in the trace a chunk stands beside so many ticks, one in lockstep."""
    while True:
        with trace.span("wait_grant"):
            chunk = source.next_chunk()
            if chunk is None:
                return
            tick = chunk.number * ticks_per_chunk
            trace.at(tick, tick - 1)  # the tick that it is for, and the one that it runs beside
        with trace.span("chunk", chunk=chunk.number):
            collector.run(chunk, source.round_done)
        source.finished(chunk)


def make_source(job: CollectorJob, waiter: Waiter, parked: Callable[[], None]) -> ChunkSource:
    """Where the collector's chunks come from."""
    share = job.schedule.shares[job.index]
    if share.ahead is None:
        return LockstepCollector(share, job.counters, waiter, job.listeners, parked)
    return FreeCollector(share, job.counters, waiter, job.listeners, parked, latest=lambda: job.weights.latest)


def collector_main(link: Link, job: CollectorJob) -> None:
    """Entry of a collector process."""
    torch.set_num_threads(job.threads)
    waiter = Waiter(job.bell, lambda: bool(job.counters["stop"]), [link.parent()])
    trace = Tracer(job.name, job.trace)
    with open_collector(job, trace) as collector:
        # The question's number first: what is told is then no older than the question.
        source = make_source(job, waiter, lambda: link.send("state", (job.counters["parked"], collector.state_dict())))
        link.send("ready", collector.continued)
        try:
            collect(collector, source, trace, job.schedule.num_collectors if job.schedule.ahead else 1)
        finally:
            trace.close()

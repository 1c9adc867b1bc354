"""The collector: owns its envs and a CPU copy of the policy, and is the only writer of its ring."""

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
from unilab.pacing import PHASES, Chunk, ChunkSource, LockstepCollector, Schedule
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

    name: str
    env: EnvConfig
    policy: PolicySpec
    schedule: Schedule
    seed: int
    threads: int
    on_nan: OnNan
    ring: Ring
    slots: HostSlots
    batch_size: int
    weights: WeightBlock
    counters: Counters
    stats: CollectorStats
    bell: Bell  # its own
    listeners: tuple[Bell, ...]  # of those who wait for its chunks
    log_dir: Path | None  # of a simulator's own log
    trace: TraceSpec | None  # None: no trace
    restart: int = 0  # collectors of the run before this one: seeds and noise are its own
    state: Mapping[str, Any] | None = None  # of the collector that this one continues; None: there is none


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
        self._batch_size = job.batch_size
        self._sampler = UniformSampler(stream(job.seed, "sample"))
        self._stats = job.stats
        self._trace = trace
        self._counters = job.counters
        self._reader = WeightReader(job.weights, FlatState(policy.module))
        self._warmup = np.random.default_rng(stream(job.seed, "warmup"))
        self._rows = make_rows(job.ring, env.num_envs, job.policy.learner.gamma)
        self._episodes = EpisodeStats(env.num_envs, env.spec.metric_names)
        learner = job.policy.learner
        self._returns = DiscountedReturns(env.num_envs, learner.gamma) if learner.norm_reward else NoReturns()
        self._env_steps = np.zeros(env.num_envs, np.int64)
        self._ended = np.zeros(env.num_envs, np.bool_)
        self.continued = False
        """Whether the envs go on with the episodes of an earlier collector."""
        self._rule = make_rule(job.on_nan, env, 0, _say)
        self._obs = self._rule.check_reset(self._begin(job.state), self._env_steps)

    def run(self, chunk: Chunk, round_done: Callable[[], None]) -> None:
        """Run a chunk, each round of which appends one row per env, and pack the batch that is drawn after it.

        With n-step returns, rows are late: whoever begins, or starts anew, does ``n_step - 1`` rounds more.
        """
        version = RANDOM_POLICY
        if chunk.version is not None:
            with self._phase("fetch", version=chunk.version):
                version = self._reader.fetch(chunk.version)
        self._policy.at(self._schedule.progress(chunk.number))
        act = self._random if chunk.version is None else self._explore
        for _ in range(self._rows.missing + chunk.rounds):
            with self._phase("act"):
                action = act()
                check_finite_action(action, version, 0)
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
        if chunk.number:
            with self._phase("pack", tick=chunk.number):
                self._pack(chunk.number)
        self._counters["phase"] = _PHASE["wait_grant"]
        seconds = {name: ns / 1e9 for name, ns in self._trace.take_totals().items()}
        self._stats.finish_chunk(chunk.number, seconds, self._returns.take())

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
        low, high = self._schedule.domain(tick)
        rows = self._schedule.updates(tick) * self._batch_size
        self._slots.pack(self._ring, self._sampler, tick=tick, rows=rows, low=low, high=high)

    def _explore(self) -> np.ndarray:
        return self._policy.explore(self._obs, self._ended)

    def _random(self) -> np.ndarray:
        shape = (self._env.num_envs, self._env.spec.action_dim)
        return self._warmup.uniform(-1.0, 1.0, shape).astype(np.float32)


def _say(what: str) -> None:
    sys.stderr.write(f"collector: {what}\n")
    sys.stderr.flush()


@contextmanager
def open_collector(job: CollectorJob, trace: Tracer) -> Iterator[Collector]:
    """Build envs and policy from a job, the same in a worker and in serial mode; closes the envs at the end."""
    job.counters["phase"] = _PHASE["make_envs"]
    policy = make_policy(job.policy, seed=job.seed, index=job.restart)  # noise of its own after each restart
    made = make_env(
        job.env,
        seed=job.seed,
        restart=job.restart,
        spec=job.policy.env,
        threads=job.threads,
        log_dir=job.log_dir,
    )
    with closing_env(made) as env:
        yield Collector(env, policy, job, trace)


def collect(collector: Collector, source: ChunkSource, trace: Tracer) -> None:
    """Run granted chunks until told to stop."""
    while True:
        with trace.span("wait_grant"):
            chunk = source.next_chunk()
            if chunk is None:
                return
            trace.at(chunk.number, chunk.number - 1)  # the tick that it is for, and the one that it runs beside
        with trace.span("chunk", chunk=chunk.number):
            collector.run(chunk, source.round_done)
        source.finished(chunk)


def collector_main(link: Link, job: CollectorJob) -> None:
    """Entry of a collector process."""
    torch.set_num_threads(job.threads)
    waiter = Waiter(job.bell, lambda: bool(job.counters["stop"]), [link.parent()])
    trace = Tracer(job.name, job.trace)
    with open_collector(job, trace) as collector:
        source = LockstepCollector(
            job.schedule,
            job.counters,
            waiter,
            job.listeners,
            parked=lambda: link.send("state", collector.state_dict()),
        )
        link.send("ready", collector.continued)
        try:
            collect(collector, source, trace)
        finally:
            trace.close()

"""Opens everything a run needs, in order, and closes it in reverse, however the run ends."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_learner
from unilab.budget import ThreadBudget, keep_freed_memory, thread_budget
from unilab.checkpoint import Checkpoints
from unilab.config import TrainConfig, check, dump, update_gflop
from unilab.digest import all_finite, digest
from unilab.envs.registry import probe
from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.errors import ConfigError, NonFinite, Stopped, UnilabError, WaitTimeout, WorkerDied
from unilab.interrupt import Interrupt
from unilab.pacing import COUNTERS, Chunk, Lockstep, Pacer, Schedule, SerialLockstep
from unilab.preflight import SLOTS, check_run_memory, episode_capacity, header, pick_device, row_layout
from unilab.progress import Progress
from unilab.replay import Packed, Ring, UniformSampler, pack
from unilab.rundir import RunSummary, create_run_dir, origin, write_json, write_summary
from unilab.seeding import stream
from unilab.shm import Arrays, Bell, Counters, Field, Waiter
from unilab.spec import EnvSpec
from unilab.telemetry.console import Console
from unilab.telemetry.csv import CsvWriter
from unilab.telemetry.every import Every
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter, Writer
from unilab.telemetry.tensorboard import TensorBoardWriter
from unilab.telemetry.trace import Tracer, merge_trace
from unilab.transfer import Batch, Copier, CpuCopier, CudaCopier, Pipeline
from unilab.transfer.pipeline import INLINE_BYTES
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import (
    CollectorJob,
    EvaluationJob,
    EvaluationResult,
    Worker,
    collector_main,
    evaluator_main,
)
from unilab.workers.collector import make_collector
from unilab.workers.evaluator import run_evaluation
from unilab.workers.stats import CollectorStats

PARK_S = 5.0  # an interrupted run waits this long for the granted chunk, then saves without it
STOP_S = 3.0  # a worker that was asked to stop is killed after this time
START_S = 300.0  # a worker may take this long to import its modules and to build its envs

LEARNER_SPANS = ("wait_batch", "pack", "copy", "update", "publish", "save")
"""Parts of the learner's time; spans of the main thread that do not nest."""


@contextmanager
def open_runtime(cfg: TrainConfig) -> Iterator[Runtime]:
    """Build a run; however it ends, its summary is written and nothing of it is left running.

    An interrupt (Ctrl-C, SIGTERM) is no error: the block ends early and the summary says so.

    Raises:
        UsageError: refused before a process starts or a file is written.
        UnilabError: from inside; what was learnt has been saved where that was possible.
    """
    check(cfg)
    device = pick_device(cfg.device)
    threads = thread_budget(cfg.threads, update_gflop=update_gflop(cfg))
    spec = probe(cfg.env)
    check_run_memory(cfg, spec)
    try:
        run_dir = create_run_dir(cfg.log_dir, cfg.env.env, cfg.algo, cfg.seed, cfg.name)
    except OSError as error:
        raise ConfigError(f"no run directory can be made in log_dir={cfg.log_dir}: {error}") from error
    rt = Runtime(cfg, spec, device, threads, run_dir)
    try:
        rt.open()
        yield rt
    except BaseException as error:
        rt.fail(error)
        if not (rt.interrupted and isinstance(error, Stopped)):
            raise
    finally:
        rt.close()


@dataclass(frozen=True, slots=True)
class RingSource:
    """Ring, sampler and pacer bound together: where the pipeline's batches come from."""

    ring: Ring
    sampler: UniformSampler
    schedule: Schedule
    pacer: Pacer
    batch_size: int

    def rows(self, tick: int) -> int:
        """Rows of batch ``tick``."""
        return self.schedule.updates(tick) * self.batch_size

    def wait(self, tick: int, waiter: Waiter) -> None:
        """Return once chunk ``tick`` is in."""
        self.pacer.wait_finished(tick, waiter)

    def pack(self, tick: int, out: NDArray[np.float32]) -> Packed:
        """Gather batch ``tick``."""
        low, high = self.schedule.domain(tick)
        return pack(self.ring, self.sampler, out, tick=tick, low=low, high=high)


class Runtime:
    """The parts of a run as the main loop uses them; made by ``open_runtime``."""

    def __init__(
        self, cfg: TrainConfig, spec: EnvSpec, device: torch.device, threads: ThreadBudget, run_dir: Path
    ) -> None:
        self.cfg = cfg
        self.run_dir = run_dir
        self.schedule = cfg.schedule()
        self.total_ticks = self.schedule.total_ticks
        self.summary = RunSummary(status="failed", reason="did not start", exit_code=1)
        self._spec = spec
        self._device = device
        self._console = Console(sys.stdout)
        self._threads = threads
        self._stack = ExitStack()
        self._tick = 0  # last finished
        self._ready = False
        self._worker: Worker | None = None
        self._policy_spec = PolicySpec(algo=cfg.algo, env=spec, learner=cfg.learner, algo_config=cfg.algo_config)
        self._trace_dir = run_dir if cfg.trace else None
        self._t0_ns = time.perf_counter_ns()

    # ------------------------------------------------------------ opening

    def open(self) -> None:
        """Take shared memory, start the collector, open telemetry."""
        self._open_signals()
        keep_freed_memory()
        torch.set_num_threads(self._threads.learner)
        (self.run_dir / "config.yaml").write_text(dump(self.cfg))
        write_json(self.run_dir / "meta.json", origin() | {"device": str(self._device)})
        self._open_memory()
        # The collector imports and builds its envs while the learner builds its networks.
        self._open_learner()
        self.pacer = self._open_serial() if self.cfg.serial else self._open_collector()
        self._open_telemetry()
        self._open_pipeline()
        self._ready = True

    def _open_signals(self) -> None:
        self._counters = Counters(COUNTERS)
        self._counters["granted"] = self._counters["finished"] = -1
        self._stack.callback(self._counters.free)
        self._bell = Bell()
        self._packer_bell = Bell()
        self._collector_bell = Bell()
        for bell in (self._bell, self._packer_bell, self._collector_bell):
            self._stack.callback(bell.close)
        self._interrupt = self._stack.enter_context(Interrupt(on_first=self._bell.ring, on_second=self._kill_worker))

    def _open_memory(self) -> None:
        cfg, layout = self.cfg, row_layout(self._spec)
        self.ring = Ring(cfg.replay.buffer_size, layout)
        self._stats = CollectorStats(
            episode_capacity(self.schedule), len(EPISODE_COLUMNS) + len(self._spec.metric_names)
        )
        rows = max(1, self.schedule.max_updates * cfg.replay.batch_size)
        self._slots = Arrays([Field("host", (SLOTS, rows, layout.width), "float32")], "staging slots")
        for owner in (self.ring, self._stats, self._slots):
            self._stack.callback(owner.free)

    def _open_learner(self) -> None:
        cfg = self.cfg
        self.learner = make_learner(
            cfg.algo, self._spec, cfg.learner, cfg.algo_config, seed=cfg.seed, device=self._device
        )
        self._state = FlatState(self.learner.policy_module)
        self._block = WeightBlock(self._state.manifest)
        self._stack.callback(self._block.free)
        self.weights = WeightWriter(self._block, self._state)

    def _open_telemetry(self) -> None:
        cfg = self.cfg
        files: list[Writer] = [TensorBoardWriter(self.run_dir), CsvWriter(self.run_dir / "progress.csv")]
        reporter = Reporter(self._console, files, total_steps=cfg.total_steps)
        self._stack.callback(reporter.close)
        self.metrics = Metrics()
        self.progress = Progress(reporter, self.metrics, self._spec.metric_names, log_every=cfg.log_every)
        self._due_save = Every(cfg.save_every)
        self._checkpoints = Checkpoints(self.run_dir / "checkpoints", keep=cfg.keep)
        self.trace = Tracer("learner", run_dir=self._trace_dir, t0_ns=self._t0_ns)
        self._stack.callback(self.trace.close)

    def _job(self) -> CollectorJob:
        return CollectorJob(
            name="collector-0",
            env=self.cfg.env,
            policy=self._policy_spec,
            schedule=self.schedule,
            seed=self.cfg.seed,
            threads=self._threads.collector,
            ring=self.ring,
            weights=self._block,
            counters=self._counters,
            stats=self._stats,
            bell=self._collector_bell,
            listeners=(self._bell, self._packer_bell),
            trace_dir=self._trace_dir,
            t0_ns=self._t0_ns,
        )

    def _open_collector(self) -> Pacer:
        self._worker = Worker(
            "collector-0", collector_main, (self._job(),), threads=self._threads.collector, bell=self._bell
        )
        self._stack.callback(self._worker.stop, STOP_S)
        who = f"collector-0 (pid {self._worker.pid})"
        return Lockstep(self._counters, self._collector_bell, self.cfg.pacing.stall_limit_s, who)

    def _open_serial(self) -> Pacer:
        collector = make_collector(self._job(), Tracer("collector-0"))
        self._stack.callback(collector.close)

        def round_done() -> None:
            if self.interrupted:
                raise Stopped("interrupted in the middle of a chunk")

        def run_chunk(chunk: Chunk) -> None:
            # The role's own thread count: it decides the last bits of sums.
            torch.set_num_threads(self._threads.collector)
            with self.trace.span("collect", chunk=chunk.number):
                collector.run(chunk, round_done)
            torch.set_num_threads(self._threads.learner)

        return SerialLockstep(self.schedule, run_chunk)

    def _open_pipeline(self) -> None:
        host = self._slots.host
        peers = self._worker.peers() if self._worker else ()
        self._waiter = Waiter(self._bell, lambda: bool(self._interrupt), peers)
        inline = self.cfg.serial or (self._device.type == "cpu" and host[0].nbytes <= INLINE_BYTES)
        self.pipeline = Pipeline(
            RingSource(
                self.ring,
                UniformSampler(stream(self.cfg.seed, "sample")),
                self.schedule,
                self.pacer,
                self.cfg.replay.batch_size,
            ),
            self.ring.layout,
            host,
            self._make_copier(host),
            waiter=self._waiter,
            packer=None if inline else Waiter(self._packer_bell, lambda: bool(self._counters["stop"]), peers),
            trace=self.trace,
        )
        self._stack.callback(self.pipeline.close)

    def _make_copier(self, host: NDArray[np.float32]) -> Copier:
        if self._device.type == "cpu":
            return CpuCopier(host)
        copier = CudaCopier(host, self._device)
        if copier.notice:
            self._console.note(copier.notice)
        write_json(self.run_dir / "transfer.json", {"page_locked": copier.notice is None, "notice": copier.notice})
        return copier

    # ------------------------------------------------------------ running

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM came."""
        return bool(self._interrupt)

    def start(self) -> int:
        """Publish version 0, run the prefill, grant chunk 1; returns the last finished tick, 0."""
        self._console.header(
            header(
                self.cfg,
                self._spec,
                run_dir=str(self.run_dir),
                device=self._device,
                threads=self._threads,
                facts=self.learner.facts(),
            )
        )
        self.weights.publish(version=0)
        if self._worker:
            self._worker.wait_message("ready", self._waiter, "collector-0 to build its envs", START_S)
        self.pacer.grant(0)
        self._wait_prefill()
        self.progress.add_episodes(self._stats.take_episodes(0))
        self._observe_rows(max(0, self.ring.cursor - self.ring.capacity), self.ring.cursor)
        self._write_progress(0, self.ring.cursor)
        self.pacer.grant(1)
        return 0

    def observe(self, tick: int) -> None:
        """Feed the rows of chunk ``tick``, each once and in order, to the learner's normaliser."""
        self._observe_rows(self.schedule.watermark(tick - 1), self.schedule.watermark(tick))

    def tick_done(self, tick: int, batch: Batch) -> None:
        """Count a finished tick, take over what the collector reported, write scalars when due."""
        self._tick = tick
        self.progress.add_episodes(self._stats.take_episodes(tick))
        self.progress.add_batch(tick, batch.packed.versions)
        env_steps = self.schedule.watermark(tick)
        if self.progress.due(env_steps):
            self._write_progress(tick, env_steps)

    def due_save(self, tick: int) -> bool:
        """Whether a checkpoint is due."""
        return self._due_save.due(self.schedule.watermark(tick))

    def save(self, tick: int, park_s: float | None = None) -> None:
        """Write a checkpoint of the state after ``tick``.

        The collector is parked first: the granted chunk is in and the next not granted, so nothing is in flight.

        Raises:
            NonFinite: the state holds a NaN or an infinity; nothing is written.
        """
        with self.trace.span("save", tick=tick):
            if tick < self.total_ticks:
                self._park(tick + 1, park_s)
            self._save(tick)

    def finish(self, tick: int) -> None:
        """Save, evaluate the final weights, and say how it went."""
        self._write_progress(tick, self.schedule.watermark(tick), last=True)
        self.save(tick, PARK_S if self.interrupted else None)
        if self.interrupted:
            self._end_interrupted()
            return
        self._ask_stop()
        if self._worker:
            self._worker.stop(STOP_S)
        if self.cfg.evaluation.episodes:
            self._evaluate(tick)
        self._end("completed", "all env steps done", 0)

    def fail(self, error: BaseException) -> None:
        """Note why the run ends early, and save what was learnt where that is safe."""
        interrupted = self.interrupted and isinstance(error, Stopped)
        if self._tick and not isinstance(error, NonFinite):
            try:
                self.save(self._tick, PARK_S if interrupted else 0.0)
            except (UnilabError, OSError) as trouble:
                self._console.note(f"no checkpoint was saved: {trouble}")
        if interrupted:
            self._end_interrupted()
        else:
            code = error.exit_code if isinstance(error, UnilabError) else 1
            self._end("failed", f"{type(error).__name__}: {error}", code)

    def close(self) -> None:
        """Stop workers, give up memory, write the summary; never leaves anything running."""
        try:
            self._ask_stop()
            self._stack.close()
            if self._trace_dir is not None and (merged := merge_trace(self._trace_dir)):
                self.summary.trace = str(merged)
        finally:
            write_summary(self.run_dir, self.summary)

    # ------------------------------------------------------------ parts

    def _observe_rows(self, start: int, stop: int) -> None:
        if not self.cfg.learner.norm_obs:
            return
        columns = self.ring.layout.columns
        for rows in self.ring.read(start, stop):
            critic = rows[:, columns["critic_obs"]] if "critic_obs" in columns else None
            self.learner.observe(
                torch.from_numpy(rows[:, columns["obs"]].copy()),
                None if critic is None else torch.from_numpy(critic.copy()),
            )

    def _write_progress(self, tick: int, env_steps: int, *, last: bool = False) -> None:
        reward_sum, collector_s = self._stats.totals(tick)
        learner_ns = self.trace.totals_ns
        self.progress.write(
            env_steps,
            self.learner.updates,
            reward_sum=reward_sum,
            seconds={
                "learner": {name: learner_ns.get(name, 0) / 1e9 for name in LEARNER_SPANS},
                "collector": collector_s,
            },
            last=last,
        )

    def _wait_prefill(self) -> None:
        reported = 0

        def look() -> None:
            nonlocal reported
            cursor = self.ring.cursor
            self.progress.add_episodes(self._stats.take_episodes(0))
            if cursor > reported:
                self.progress.prefill(cursor, self.schedule.prefill, self._stats.reward_sum)
                reported = cursor

        self.pacer.wait_finished(0, self._waiter, look)
        look()

    def _park(self, chunk: int, park_s: float | None) -> None:
        """Wait until the granted chunk is in; with a limit, give up quietly."""
        if park_s is None:
            self.pacer.wait_finished(chunk, self._waiter)
            return
        peers = self._worker.peers() if self._worker else ()
        patient = Waiter(self._bell, peers=peers)  # an interrupt has come already: it must not end this wait
        with contextlib.suppress(WaitTimeout, WorkerDied):
            patient.wait(lambda: self._counters["finished"] >= chunk, f"chunk {chunk}", park_s)

    def _save(self, tick: int) -> None:
        state = self.learner.state_dict()
        if not all_finite(state):
            raise NonFinite(f"the learner's state holds a NaN or an infinity at tick {tick:,}; it is not saved")
        self.summary.checkpoint = str(
            self._checkpoints.save(
                self.ring.cursor,
                {
                    "tick": tick,
                    "updates": self.learner.updates,
                    "env_steps": self.ring.cursor,
                    "config": dump(self.cfg),
                    # Copies: the entries are views of one buffer, in several dtypes, which torch.save refuses.
                    "policy": {k: v.cpu().clone() for k, v in self.learner.policy_module.state_dict().items()},
                    "learner": state,
                },
                {
                    "tick": tick,
                    "updates": self.learner.updates,
                    "wall_time_s": self._wall_s(),
                    "env": self.cfg.env.env,
                    "algo": self.cfg.algo,
                },
            )
        )

    def _evaluate(self, tick: int) -> None:
        """Evaluate the final weights in a child process (in this one in serial mode)."""
        block = WeightBlock(self._state.manifest, "evaluator weights")
        self._stack.callback(block.free)
        WeightWriter(block, self._state).publish(version=tick)
        job = EvaluationJob(
            env=self.cfg.env,
            policy=self._policy_spec,
            weights=block,
            version=tick,
            seed=self.cfg.seed,
            episodes=self.cfg.evaluation.episodes,
            threads=self._threads.collector,
        )
        result = run_evaluation(job) if self.cfg.serial else self._evaluate_in_child(job)
        returns = result.episodes.returns
        self.summary.final_eval_mean = float(returns.mean())
        self.summary.final_eval_std = float(returns.std())
        self.progress.write_evaluation(
            self.ring.cursor,
            {
                "eval/mean_reward": float(returns.mean()),
                "eval/std_reward": float(returns.std()),
                "eval/mean_ep_length": float(result.episodes.lengths.mean()),
                **{f"eval/{name}": value for name, value in result.episodes.metrics.items()},
            },
        )

    def _evaluate_in_child(self, job: EvaluationJob) -> EvaluationResult:
        worker = Worker("evaluator-0", evaluator_main, (job,), threads=job.threads, bell=self._bell)
        self._worker = worker  # so that a second Ctrl-C takes it along
        try:
            waiter = Waiter(self._bell, lambda: self.interrupted, worker.peers())
            result: EvaluationResult = worker.wait_message("result", waiter, "the final evaluation")
            return result
        finally:
            worker.stop(STOP_S)

    def _ask_stop(self) -> None:
        """Tell everyone who waits that the run is over."""
        self._counters["stop"] = 1
        for bell in (self._collector_bell, self._packer_bell):
            bell.ring()

    def _kill_worker(self) -> None:
        if self._worker:
            self._worker.kill()

    def _wall_s(self) -> float:
        """Seconds since the run was made."""
        return (time.perf_counter_ns() - self._t0_ns) / 1e9

    def _end_interrupted(self) -> None:
        signal = self._interrupt.signal
        assert signal is not None
        self._console.note(f"stopped by {signal.name}; saved {self.summary.checkpoint or 'nothing yet'}")
        self._end("interrupted", f"stopped by {signal.name}", self._interrupt.exit_code)

    def _end(self, status: str, reason: str, code: int) -> None:
        """Fill the summary: outcome, counters, digests, returns."""
        summary = self.summary
        summary.status, summary.reason, summary.exit_code = status, reason, code
        summary.wall_time_s = self._wall_s()
        if not self._ready:
            return
        episodes = self.progress.episodes
        summary.env_steps = self.ring.cursor
        summary.updates = self.learner.updates
        summary.ticks = self._tick
        summary.env_steps_per_s = summary.env_steps / summary.wall_time_s
        summary.updates_per_s = summary.updates / summary.wall_time_s
        summary.best_return = episodes.best
        summary.mean_ep_length = episodes.scalars().get("rollout/ep_len_mean")
        summary.learner_digest = digest(self.learner.state_dict())
        summary.replay_digest = self.ring.digest()

"""Opens everything a run needs, in order, and closes it in reverse, however the run ends."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

import numpy as np
import torch

from unilab.algos.registry import make_learner
from unilab.assembly import PARK_S, collector_job, make_copier, make_pipeline, open_shared, serial_pacer
from unilab.budget import keep_freed_memory
from unilab.checkpoint import Checkpoints
from unilab.config import TrainConfig, dump
from unilab.digest import all_finite, digest
from unilab.errors import NonFinite, Stopped, UnilabError, WaitTimeout, WorkerDied
from unilab.evaluation import evaluate_final
from unilab.interrupt import Interrupt
from unilab.pacing import Lockstep, Pacer
from unilab.preflight import Plan, header, plan_run
from unilab.progress import Progress
from unilab.rundir import RunSummary, origin, write_json, write_summary
from unilab.shm import Peer, Waiter
from unilab.telemetry.console import Console
from unilab.telemetry.csv import CsvWriter
from unilab.telemetry.every import Every
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter, Writer
from unilab.telemetry.tensorboard import TensorBoardWriter
from unilab.telemetry.trace import Tracer, merge_trace
from unilab.transfer import Batch
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import Worker, collector_main

STOP_S = 3.0  # a worker that was asked to stop is killed after this time
START_S = 300.0  # a worker may take this long to import its modules and to build its envs

LEARNER_SPANS = ("wait_batch", "update", "publish", "save")
"""Parts of the learner's time: spans of the main thread that do not nest."""


@contextmanager
def open_runtime(cfg: TrainConfig) -> Iterator[Runtime]:
    """Build a run; however it ends, its summary is written and nothing of it is left running.

    An interrupt (Ctrl-C, SIGTERM) is no error: the block ends early and the summary says so.

    Raises:
        UsageError: refused before a process starts or a file is written.
        UnilabError: from inside; what was learnt has been saved where that was possible.
    """
    rt = Runtime(plan_run(cfg))
    try:
        rt.open()
        yield rt
    except BaseException as error:
        rt.fail(error)
        if not rt.ended_by_interrupt(error):
            raise
    finally:
        rt.close()


class Runtime:
    """The parts of a run as the main loop uses them; made by ``open_runtime``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.schedule = plan.schedule
        self.total_ticks = plan.schedule.total_ticks
        self.summary = RunSummary(status="failed", reason="did not start", exit_code=1)
        self._console = Console(sys.stdout)
        self._stack = ExitStack()
        self._interrupt = Interrupt(on_first=lambda: self._shared.learner.ring(), on_second=self._kill_worker)
        self._worker: Worker | None = None
        self._tick = 0  # last finished
        self._saved = -1  # last saved
        self._ready = False

    # ------------------------------------------------------------ opening

    def open(self) -> None:
        """Take shared memory, start the collector, build the learner, open telemetry."""
        plan, cfg = self.plan, self.plan.cfg
        self._shared = open_shared(plan, self._stack)
        self.ring, self._stats = self._shared.ring, self._shared.stats
        self._stack.enter_context(self._interrupt)
        (plan.run_dir / "config.yaml").write_text(dump(cfg))
        write_json(
            plan.run_dir / "meta.json",
            origin() | {"device": str(plan.device), "threads": asdict(plan.threads)},
        )
        if platform.machine() not in ("x86_64", "AMD64"):
            self._console.note(f"{platform.machine()}: the order of shared-memory stores is only ensured on x86-64")
        keep_freed_memory()
        torch.set_num_threads(plan.threads.learner)

        self.learner = make_learner(
            cfg.algo, plan.spec, cfg.learner, cfg.algo_config, seed=cfg.seed, device=plan.device
        )
        self._state = FlatState(self.learner.policy_module)
        self._block = WeightBlock(self._state.manifest)
        self._stack.callback(self._block.free)
        self.weights = WeightWriter(self._block, self._state)
        self.trace = Tracer("learner", run_dir=plan.trace_dir, t0_ns=plan.t0_ns)
        self._stack.callback(self.trace.close)
        self.pacer = self._open_pacer()
        self._open_telemetry()

        self._waiter = Waiter(self._shared.learner, lambda: self.interrupted, self._peers())
        copier = make_copier(plan, self._shared, self._console)
        self.pipeline = make_pipeline(plan, self._shared, self.pacer, copier, self._waiter, self._peers(), self.trace)
        self._stack.callback(self.pipeline.close)
        self._stack.callback(self._shared.ask_stop)  # runs first: who waits must stop before what it waits for closes
        self._ready = True

    def _open_pacer(self) -> Pacer:
        plan, shared = self.plan, self._shared
        job = collector_job(plan, shared, self._block)
        if plan.cfg.serial:
            return serial_pacer(plan, job, self.trace, self._interrupt, self._show_prefill, self._stack)
        self._worker = Worker(job.name, collector_main, (job,), threads=job.threads, bell=shared.learner)
        self._stack.callback(self._worker.stop, STOP_S)
        self._stack.callback(shared.ask_stop)
        who = f"{job.name} (pid {self._worker.pid})"
        return Lockstep(shared.counters, shared.collector, plan.cfg.pacing.stall_limit_s, who)

    def _open_telemetry(self) -> None:
        plan, cfg = self.plan, self.plan.cfg
        files: list[Writer] = [TensorBoardWriter(plan.run_dir), CsvWriter(plan.run_dir / "progress.csv")]
        last = plan.schedule.watermark(self.total_ticks)
        reporter = Reporter(self._console, files, total_steps=last)
        self._stack.callback(reporter.close)
        self.metrics = Metrics()
        self.progress = Progress(reporter, self.metrics, plan.spec.metric_names, log_every=cfg.log_every)
        self._due_save = Every(cfg.save_every)
        self._checkpoints = Checkpoints(plan.run_dir / "checkpoints", keep=cfg.keep)

    # ------------------------------------------------------------ running

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM came."""
        return bool(self._interrupt)

    def start(self) -> int:
        """Run the prefill, publish version 0, ask for batch 1 and grant chunk 1; returns the last finished tick, 0.

        The prefill acts without weights, so version 0 follows it: with the normaliser that the prefill has fed.
        """
        self._console.header(header(self.plan, self.learner.facts()))
        for warning in self.plan.warnings:
            self._console.note(f"warning: {warning}")
        if self._worker:
            self._worker.wait_message("ready", self._waiter, "collector-0 to build its envs", START_S)
        self.pacer.grant(0)
        self.pacer.wait_finished(0, self._waiter, self._show_prefill)
        self._show_prefill()
        self._feed_normaliser(max(0, self.ring.cursor - self.ring.capacity), self.ring.cursor)
        self.weights.publish(version=0)
        self._write_progress(0)
        self.pipeline.prefetch(1)
        self.pacer.grant(1)
        return 0

    def observe(self, tick: int) -> None:
        """Feed the rows of chunk ``tick``, each once and in order, to the learner's normaliser."""
        self._feed_normaliser(self.schedule.watermark(tick - 1), self.schedule.watermark(tick))

    def tick_done(self, tick: int, batch: Batch) -> None:
        """Count a finished tick, take over what the collector reported, write scalars when due."""
        self._tick = tick
        self.progress.add_episodes(self._stats.take_episodes(tick))
        self.progress.add_batch(tick, batch.packed.versions)
        if self.progress.due(self.schedule.watermark(tick)):
            self._write_progress(tick)

    def due_save(self, tick: int) -> bool:
        """Whether a checkpoint is due."""
        return self._due_save.due(self.schedule.watermark(tick))

    def save(self, tick: int, park_s: float | None = None) -> None:
        """Write a checkpoint of the state after ``tick``.

        The collector is parked first: the granted chunk is in and the next not granted, so nothing is in flight.

        Args:
            tick: last finished.
            park_s: give up waiting for the chunk after this time and save all the same; None waits as ever.

        Raises:
            NonFinite: the state holds a NaN or an infinity; nothing is written.
        """
        if tick == self._saved:
            return
        with self.trace.span("save", tick=tick):
            if tick < self.total_ticks:
                self._park(tick + 1, park_s)
            self._save(tick)

    def finish(self, tick: int) -> None:
        """Save, evaluate the final weights, and say how it went."""
        self._write_progress(tick, last=True)
        self.save(tick, PARK_S if self.interrupted else None)
        self._stop_worker()
        if self.interrupted:
            self._end_interrupted()
            return
        if self.plan.cfg.evaluation.episodes:
            self._evaluate(tick)
        self._end("completed", "all env steps done", 0)

    def ended_by_interrupt(self, error: BaseException) -> bool:
        """Whether an error is only how an interrupt ended the run; it may have reached the collector too."""
        return self.interrupted and isinstance(error, Stopped | WorkerDied)

    def fail(self, error: BaseException) -> None:
        """Note why the run ends early, and save what was learnt where that is safe."""
        interrupted = self.ended_by_interrupt(error)
        if not interrupted:
            said = (str(error) or type(error).__name__).splitlines()[0]
            code = error.exit_code if isinstance(error, UnilabError) else 1
            self.summary.status, self.summary.reason, self.summary.exit_code = "failed", said, code
        if self._tick and not isinstance(error, NonFinite):
            # Whatever goes wrong now must not hide why the run ended.
            with self._noted("no checkpoint was saved"):
                if not interrupted:
                    self._stop_worker()
                self.save(self._tick, PARK_S if interrupted else 0.0)
        with self._noted("the summary is not complete"):
            self._stop_worker()
            if interrupted:
                self._end_interrupted()
            else:
                self._end(self.summary.status, self.summary.reason, self.summary.exit_code)

    def close(self) -> None:
        """Stop workers, give up memory, write the summary; never leaves anything running."""
        with self._noted("not everything could be closed"):
            self._stack.close()
        if self.plan.trace_dir is not None:
            with self._noted("the trace is not complete"):
                merged = merge_trace(self.plan.trace_dir)
                self.summary.trace = str(merged) if merged else None
        write_summary(self.plan.run_dir, self.summary)

    # ------------------------------------------------------------ parts

    def _peers(self) -> Sequence[Peer]:
        return self._worker.peers() if self._worker else ()

    def _show_prefill(self) -> None:
        self.progress.add_episodes(self._stats.take_episodes(0))
        self.progress.prefill(self.ring.cursor, self.schedule.prefill, self._stats.reward_sum)

    def _feed_normaliser(self, start: int, stop: int) -> None:
        if not self.plan.cfg.learner.norm_obs:
            return
        columns = self.ring.layout.columns
        for rows in self.ring.read(start, stop):
            critic = rows[:, columns["critic_obs"]] if "critic_obs" in columns else None
            self.learner.observe(
                torch.from_numpy(rows[:, columns["obs"]].copy()),
                None if critic is None else torch.from_numpy(critic.copy()),
            )

    def _write_progress(self, tick: int, *, last: bool = False) -> None:
        reward_sum, collector_s = self._stats.totals(tick)
        learner_ns = self.trace.totals_ns
        learner_s = {name: learner_ns.get(name, 0) / 1e9 for name in LEARNER_SPANS}
        newest = np.array([self.schedule.watermark(tick) - 1])
        self.progress.write(
            self.schedule.watermark(tick),
            self.learner.updates,
            reward_sum=reward_sum,
            policy_lag=tick - 1 - int(self.ring.versions_of(newest)[0]),
            seconds={"learner": learner_s, "collector": collector_s},
            last=last,
        )

    def _park(self, chunk: int, park_s: float | None) -> None:
        """Wait until the granted chunk is in; with a limit, give up quietly."""
        if park_s is None:
            self.pacer.wait_finished(chunk, self._waiter)
        elif self._worker and self._worker.alive:
            # An interrupt has come already: it must not end this wait.
            patient = Waiter(self._shared.learner, peers=self._peers())
            with contextlib.suppress(WaitTimeout, WorkerDied):
                patient.wait(lambda: self._shared.counters["finished"] >= chunk, f"chunk {chunk}", park_s)

    def _stop_worker(self) -> None:
        """End the collector, so that nobody appends to the ring any more."""
        if self._worker and self._worker.alive:
            self._shared.ask_stop()
            self._worker.stop(STOP_S)

    @contextlib.contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Turn an error into a line on the console."""
        try:
            yield
        except Exception as error:
            self._console.note(f"{what}: {type(error).__name__}: {error}")

    def _save(self, tick: int) -> None:
        cfg, state, policy = self.plan.cfg, self.learner.state_dict(), self.learner.policy_module.state_dict()
        if not all_finite(state):
            raise NonFinite(f"the learner's state holds a NaN or an infinity at tick {tick:,}; it is not saved")
        self._state.check()
        env_steps = self.ring.cursor
        counts = {"tick": tick, "updates": self.learner.updates, "env_steps": env_steps}
        contents = {
            **counts,
            "config": dump(cfg),
            # Copies: the entries are views of one buffer, in several dtypes, which torch.save refuses.
            "policy": {name: value.cpu().clone() for name, value in policy.items()},
            "learner": state,
        }
        meta = counts | {"wall_time_s": self.plan.wall_s(), "env": cfg.env.env, "algo": cfg.algo}
        self.summary.checkpoint = str(self._checkpoints.save(env_steps, contents, meta))
        self._saved = tick

    def _evaluate(self, tick: int) -> None:
        def started(worker: Worker) -> None:
            self._worker = worker  # so that a second Ctrl-C takes it along

        result = evaluate_final(self.plan, self._state, tick, self._shared.learner, started, lambda: self.interrupted)
        self.summary.final_eval_mean = result.scalars()["eval/mean_reward"]
        self.summary.final_eval_std = result.scalars()["eval/std_reward"]
        self.progress.write_evaluation(self.ring.cursor, result.scalars())
        if result.episodes.cut:
            self._console.note(
                f"{result.episodes.cut} evaluation episodes did not end within "
                f"{self.plan.cfg.evaluation.max_episode_steps:,} steps and were counted as they stood"
            )

    def _kill_worker(self) -> None:
        if self._worker:
            self._worker.kill()

    def _end_interrupted(self) -> None:
        signal = self._interrupt.signal
        assert signal is not None
        self._console.note(f"stopped by {signal.name}; saved {self.summary.checkpoint or 'nothing yet'}")
        self._end("interrupted", f"stopped by {signal.name}", self._interrupt.exit_code)

    def _end(self, status: str, reason: str, code: int) -> None:
        """Fill the summary: outcome, counters, digests, returns."""
        summary = self.summary
        summary.status, summary.reason, summary.exit_code = status, reason, code
        summary.wall_time_s = self.plan.wall_s()
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

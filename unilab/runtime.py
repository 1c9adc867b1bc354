"""Opens everything a run needs, in order, and closes it in reverse, however the run ends."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace

import torch
from torch import Tensor

from unilab.algos.compiled import loading_compiler
from unilab.algos.registry import make_learner
from unilab.algos.symmetry import Augment, HalfMirrored, unchanged
from unilab.assembly import (
    collector_jobs,
    make_copier,
    make_pipeline,
    make_sampler,
    make_sampling,
    open_shared,
    pack_batch,
    pack_drawn,
)
from unilab.budget import keep_freed_memory, keeping_to, usable_cores
from unilab.checkpoint import preload
from unilab.collectors import Crew, SerialCollectors, SpawnedCollectors
from unilab.computing import state_of
from unilab.config import TrainConfig, dump
from unilab.digest import digest
from unilab.ending import Ending
from unilab.envs.choice import choose
from unilab.errors import NonFinite, ResourceError, Stopped, WorkerDied, machine_trouble
from unilab.evaluating import Evaluations
from unilab.evaluators import Evaluator, SerialEvaluator, SpawnedEvaluator
from unilab.hooks import Hooks
from unilab.interrupt import Interrupt
from unilab.preflight import Plan, header, plan_run
from unilab.progress import Mark
from unilab.resume import Resume, check_unchanged
from unilab.run_log import RunLog
from unilab.run_state import Parts, as_arrays, restore
from unilab.rundir import origin, run_lock, write_meta
from unilab.saving import Saver
from unilab.shm import Waiter
from unilab.spec import Minibatch
from unilab.telemetry.every import Every
from unilab.telemetry.memory import resident_bytes
from unilab.telemetry.panel import open_console
from unilab.telemetry.trace import OUTSIDE
from unilab.tracing import RunTiming, RunTrace, make_gauges
from unilab.transfer import Batch
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import Worker
from unilab.workers.stats import mean_seconds

LEARNER_SPANS = ("wait_batch", "update", "publish", "save")
"""Parts of the learner's time: spans of the main thread that do not nest."""


@contextmanager
def open_runtime(cfg: TrainConfig, resume: Resume | None = None, hooks: Hooks | None = None) -> Iterator[Runtime]:
    """Build a run, or go on with one; however it ends, its summary is written and nothing of it is left running.

    An interrupt (Ctrl-C, SIGTERM) is no error: the block ends early and the summary says so.

    Raises:
        UsageError: refused before a process starts or a file is written.
        UnilabError: from inside; what was learnt has been saved where that was possible.
    """
    hooks = hooks or Hooks()
    plan = plan_run(cfg, resume, hooks.deadline)
    with run_lock(plan.run_dir):
        if resume:
            check_unchanged(resume)
        rt = Runtime(plan, hooks)
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

    def __init__(self, plan: Plan, hooks: Hooks) -> None:
        self.plan = plan
        self._hooks = hooks
        self.schedule = plan.schedule
        self.total_ticks = plan.schedule.total_ticks
        self._console = open_console(hooks.stream, f"{plan.cfg.algo} on {plan.spec.env_id}, seed {plan.cfg.seed}")
        self._ending = Ending(plan.run_dir, self._console)
        self.summary = self._ending.summary
        self._stack = ExitStack()
        self._interrupt = Interrupt(on_first=lambda: self._shared.learner.ring(), on_second=self._end_at_once)
        self._kills: list[Callable[[], None]] = []  # of the processes of this run
        self._run_trace: RunTrace | None = None
        self._tick = 0  # last finished
        self._ready = False
        self._enough = False  # the program around the run wants no more of it
        self._ends_with: Stopped | WorkerDied | None = None
        self._errors: list[Tensor] = []  # of the rows of this tick so far

    # ------------------------------------------------------------ opening

    def open(self) -> None:
        """Take shared memory, start the collectors, build the learner, open telemetry.

        Raises:
            ResourceError: the machine lacks what that needs.
        """
        try:
            self._open()
        except OSError as error:
            if trouble := machine_trouble(error):
                raise ResourceError(f"the run cannot start: {trouble}") from error
            raise

    def _open(self) -> None:
        plan = self.plan
        self._stack.callback(self._console.close)
        self._worker_log = self._console.worker_log(plan.run_dir)
        self._shared = open_shared(plan, self._stack)
        self.replay, self._reports = self._shared.replay, self._shared.reports
        self._stack.enter_context(self._interrupt)
        if platform.machine() not in ("x86_64", "AMD64"):
            self._console.note(f"{platform.machine()}: the order of shared-memory stores is only ensured on x86-64")
        keep_freed_memory()
        torch.set_num_threads(plan.threads.learner)
        self._stack.enter_context(keeping_to(plan.cores.learner if plan.cores else None))
        self._open_learner()
        self._write_origin()  # not before: a run that is refused to go on stays as it was
        self._open_telemetry()
        self.parts = Parts(self.learner, self._block, self.progress, self._reports)
        self._waiter = Waiter(self._shared.learner, lambda: self.interrupted)
        if plan.resume:
            self._restore(plan.resume)
        self.collectors = self._open_collectors()
        self._kills.append(self.collectors.kill)
        self._stack.callback(self.collectors.stop)
        self.pacer = self.collectors.pacer
        self.sampling = make_sampling(plan, self._shared, self.pacer)
        if plan.resume:
            self.sampling.load_state_dict(as_arrays(plan.resume.state["sampling"]))
        self._open_saver()
        self._open_evaluations()
        self._open_pipeline()
        self._stack.callback(self._shared.ask_stop)  # runs first: who waits must stop before what it waits for closes
        self._ready = True

    def _open_learner(self) -> None:
        plan, cfg = self.plan, self.plan.cfg
        self.learner = make_learner(
            cfg.algo,
            plan.spec,
            cfg.learner,
            cfg.algo_config,
            seed=cfg.seed,
            device=plan.device,
            total_updates=plan.schedule.updates_until(plan.schedule.total_ticks),
            compute=replace(
                plan.compute,
                say=self._console.note,
                stoppable=self._interrupt.breaking,
                on_compiled=lambda: self._timing.leave_out(),
                compilers=usable_cores(),
            ),
        )
        mirror = plan.spec.mirror if cfg.learner.symmetry else None
        self.augment: Augment = HalfMirrored(mirror, plan.device) if mirror else unchanged
        if plan.weights is not None:
            self.learner.load_weights(plan.weights)
        if plan.resume:
            self.learner.load_state_dict(plan.resume.state["learner"])
        self._state = FlatState(self.learner.policy_module)
        self._block = WeightBlock(self._state.manifest)
        self._stack.callback(self._block.free)
        self.weights = WeightWriter(self._block, self._state)

    def _write_origin(self) -> None:
        plan = self.plan
        about = {
            "device": str(plan.device),
            "threads": asdict(plan.threads),
            "update": state_of(plan.compute),
            "backend": asdict(choose(plan.cfg.env)),
        }
        try:
            (plan.run_dir / "config.yaml").write_text(dump(plan.cfg))
            write_meta(plan.run_dir, origin() | about)
        except OSError as error:
            raise ResourceError(f"{plan.run_dir} cannot be written: {error.strerror or error}") from error

    def _open_telemetry(self) -> None:
        plan = self.plan
        self._run_trace = RunTrace(plan)
        self.trace = self._run_trace.tracer
        self._stack.callback(self.trace.close)
        self._gauges = make_gauges(self._run_trace, self._shared, lambda: self.pacer.debt, self._acted)
        self._timing = RunTiming(self.trace, self._reports, plan)
        self._log = RunLog(plan, self._console)
        self._stack.callback(self._log.close)
        self.metrics, self.progress = self._log.metrics, self._log.progress

    def _open_saver(self) -> None:
        plan = self.plan
        self._due_save = Every(plan.cfg.save_every, start_steps=plan.start_steps)
        self._saver = Saver(
            plan,
            self.parts,
            self._state,
            self._shared,
            self.collectors,
            self.sampling,
            self._waiter,
            self._console.note,
        )
        self._stack.callback(self._saver.close)
        if plan.resume:
            self._saver.go_on(plan.resume)
        elif plan.preload:
            preload(plan.preload.checkpoint, self.replay.rings, [share.preloaded for share in self.schedule.shares])

    def _open_pipeline(self) -> None:
        plan = self.plan
        background = Waiter(self._shared.copier, lambda: self._shared.stopped)
        self.collectors.watched_by(self._waiter, background)
        copier = make_copier(plan, self._shared, self._console, self.trace)
        self.pipeline = make_pipeline(
            plan, self._shared, self.pacer, self.sampling, copier, self._waiter, background, self.trace
        )
        self.collectors.then(self.pipeline.retry)
        self._stack.callback(self.pipeline.close)

    def _open_collectors(self) -> Crew:
        jobs = collector_jobs(self.plan, self._shared, self._block)
        if self.plan.cfg.serial:
            return SerialCollectors(self.plan, jobs, self.trace, self._interrupt, self._show_prefill, self._stack)
        return SpawnedCollectors(
            self.plan, self._shared, jobs, self._console.note, lambda: self.interrupted, self._worker_log
        )

    def _open_evaluations(self) -> None:
        def started(worker: Worker) -> None:
            self._kills.append(worker.kill)  # so that a second Ctrl-C takes it along

        evaluator: Evaluator = (
            SerialEvaluator(self.plan, self._state, lambda: self.interrupted)
            if self.plan.cfg.serial
            else SpawnedEvaluator(
                self.plan, self._state, self._shared.learner, lambda: self.interrupted, started, self._worker_log
            )
        )
        self.evaluations = Evaluations(
            self.plan,
            self.learner,
            evaluator,
            self.progress.write_evaluation,
            self._log.eval_log,
            self._console.note,
            self.trace,
        )
        self._stack.callback(self.evaluations.close)

    # ------------------------------------------------------------ running

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM came."""
        return bool(self._interrupt)

    @property
    def done(self) -> bool:
        """Whether the run ends before its last tick: interrupted, as good as was asked for, or ended by the program."""
        return self.interrupted or self.evaluations.reached or self._enough

    def start(self) -> int:
        """Run the prefill, publish version 0, ask for batch 1 and grant chunk 1; returns the last finished tick.

        A run that goes on starts where it stood: the next batch lies in its slot already, or its chunk is granted.
        Version 0 is what acts in the prefill, where the policy does. Otherwise it follows the prefill, with the
        normaliser that the prefill has fed.
        """
        self._hooks.opened(self.plan.run_dir)
        self._console.header(header(self.plan, self.learner.facts()))
        for warning in self.plan.warnings:
            self._console.note(f"warning: {warning}")
        weights_first = not self.schedule.uniform_prefill
        if weights_first and not self.plan.resume:
            self._publish_first()
        with self._loading_compiler():
            continued = self.collectors.wait_ready(self._waiter)
            if not self.plan.resume:
                self.pacer.grant(0)
                self.collectors.surviving(lambda: self.pacer.wait_finished(0, self._waiter, self._show_prefill))
        if self.plan.resume:
            return self._go_on(self.plan.resume, continued)
        self._show_prefill()
        self._feed_normalisers((-1,) * len(self.replay.rings), self.pacer.counted(0))
        if not weights_first:
            self._publish_first()
        self._write_progress(0)
        self.evaluations.start()
        self.pipeline.prefetch(1)
        self.pacer.grant(1)
        self._timing.start(0, self.pacer.counted(0))
        return 0

    def _loading_compiler(self) -> AbstractContextManager[None]:
        waits_only = self.plan.compute.compiled and not self.plan.cfg.serial  # else it collects in this thread
        return loading_compiler(self.plan.device) if waits_only else nullcontext()

    def _publish_first(self) -> None:
        with self.trace.span("publish", version=0):
            self.weights.publish(version=0)

    def take(self, tick: int) -> Batch:
        """The batch of a tick; collectors that die are replaced as often as ``max_restarts`` says.

        Raises:
            WorkerDied: the collector has died or hangs.
            Stopped: the run was asked to stop.
        """
        self.trace.at(tick)
        batch = self.collectors.surviving(lambda: self.pipeline.take(tick))
        if tick == self.total_ticks:
            # A run that goes on from here has the bits of one that was longer from the start, which would draw now.
            self.sampling.draw(tick + 1)
        return batch

    def grant(self, chunk: int) -> None:
        """Let the collectors go on to this chunk, as soon as no save needs the rows that it overwrites."""
        self._saver.before_chunk(chunk)
        with self.trace.span("grant"):
            self.pacer.grant(chunk)

    def update(self, minibatch: Minibatch) -> None:
        """One update, its scalars, and the errors of its rows where those decide what is drawn."""
        self.metrics.add(self.learner.update(self.augment(minibatch)))
        if self.learner.td_errors is not None:
            self._errors.append(self.learner.td_errors)

    def learnt(self, tick: int) -> None:
        """The updates of a tick are made: its rows have new priorities, its newest ones count for the normalisers."""
        self.sampling.learnt(tick, self._errors)
        self._errors = []
        self.observe(tick)

    def observe(self, tick: int) -> None:
        """Feed the rows that a tick is the first to count, each once and in order, to the learner's normalisers."""
        self._feed_normalisers(self.pacer.counted(tick - 1), self.pacer.counted(tick))

    def publish(self, tick: int) -> None:
        """Publish the weights after a tick, if they are due; free-running, it may have to wait for old chunks first."""
        try:
            self.collectors.surviving(lambda: self.pacer.admit(tick, self._waiter))
        except (Stopped, WorkerDied) as error:
            self._ends_with = error  # as soon as this tick counts: all that makes it up is done
        if tick % self.plan.cfg.pacing.publish_interval == 0:
            with self.trace.span("publish", version=tick):
                self.weights.publish(version=tick)
        self.pacer.published(tick)

    def tick_done(self, tick: int, batch: Batch) -> None:
        """Count a finished tick, take over what the collectors reported, write scalars when due."""
        self._tick = tick
        counted = self.pacer.counted(tick)
        self.progress.add_episodes(self._reports.take_episodes(counted))
        if self.schedule.ahead is not None:
            self.progress.add_lags(self._reports.lags(self.pacer.counted(tick - 1), counted))
        self.progress.add_batch(tick, batch.packed.versions)
        self._gauges.sample(batch.packed)
        if self.progress.due(self.schedule.watermark(tick)):
            with self.trace.span("log", tick=tick):
                self._write_progress(tick)
        self._timing.tick_done(tick, counted)
        self.evaluations.tick_done(tick)
        env_steps = self.schedule.watermark(tick)
        self._enough = not self._hooks.tick_done(env_steps, self.progress.scalars, self.evaluations.last)
        if self._ends_with:
            raise self._ends_with

    def due_save(self, tick: int) -> bool:
        """Whether a checkpoint is due."""
        return self._due_save.due(self.schedule.watermark(tick))

    def save(self, tick: int) -> None:
        """Start to write a checkpoint of the state after ``tick``; see ``Saver.save``."""
        self.evaluations.settle()  # what goes on from here need not do it again
        with self.trace.span("save", tick=tick):
            self._saver.save(tick)

    def _save_last(self, tick: int, patience_s: float | None) -> None:
        self.trace.at(OUTSIDE)
        self._timing.stop()
        with self.trace.span("save", tick=tick):
            self._saver.save_last(tick, patience_s)

    def finish(self, tick: int) -> None:
        """Save, evaluate the final weights, and say how it went."""
        limit_s = self.plan.cfg.pacing.shutdown_timeout_s if self.interrupted else None
        if self.interrupted:
            self.evaluations.settle(limit_s)
        else:
            self.evaluations.begin_last(tick)
        self._save_last(tick, limit_s)
        self._write_progress(tick, last=True)  # after the save: a run that goes on writes when it is due
        self.collectors.stop()
        if self.interrupted:
            self._end_interrupted()
            return
        if result := self.evaluations.finish():
            self.summary.final_eval_mean = result.scalars()["eval/mean_reward"]
            self.summary.final_eval_std = result.scalars()["eval/std_reward"]
        self._say_timing()
        self._ending.outcome("completed", self._why_completed(), 0)
        self._count()

    def _why_completed(self) -> str:
        if self.evaluations.reached:
            return f"the evaluation reached stop_at_return={self.plan.cfg.evaluation.stop_at_return}"
        return "the callback ended it" if self._enough else "all env steps done"

    def ended_by_interrupt(self, error: BaseException) -> bool:
        """Whether an error is only how an interrupt ended the run; it may have reached the collector too."""
        return self.interrupted and isinstance(error, Stopped | WorkerDied)

    def fail(self, error: BaseException) -> None:
        """Note why the run ends early, and save what was learnt where that is safe."""
        interrupted = self.ended_by_interrupt(error)
        if not interrupted:
            self._ending.failed(error)
        if self._ready and self._tick and not self._between_ticks():
            self._console.note(f"it failed in the middle of tick {self._tick + 1:,}, which cannot be saved")
        elif self._ready and self._tick and not isinstance(error, NonFinite):
            with self._ending.noted("no checkpoint was saved"):
                limit_s = self.plan.cfg.pacing.shutdown_timeout_s if interrupted else 0.0
                if interrupted:
                    self.evaluations.settle(limit_s)
                else:
                    self.collectors.stop()
                self._save_last(self._tick, limit_s)
        with self._ending.noted("the summary is not complete"):
            if self._ready:
                self.collectors.stop()
            if interrupted:
                self._end_interrupted()
            else:
                self._say_timing()
                self._count()

    def close(self) -> None:
        """Stop workers, give up memory, write the summary; never leaves anything running."""
        with self._ending.noted("not everything could be closed"):
            self._stack.close()
        if self._run_trace:
            self._ending.trace(self._run_trace, self.plan.cfg.trace_mb)
        if self.plan.resume and not self._ready:
            return  # refused: the run stays as it was
        self._ending.write()

    # ------------------------------------------------------------ going on

    def _restore(self, resume: Resume) -> None:
        """Put the learner's side back to where the checkpoint was made."""
        restore(self.plan, self.parts, resume.state)
        self._tick = int(resume.state["tick"])
        for channel, finished in zip(self._shared.channels, resume.state["finished"], strict=True):
            channel.counters["granted"] = channel.counters["finished"] = int(finished)
            channel.counters["version"] = self._tick

    def _go_on(self, resume: Resume, continued: bool) -> int:
        tick = int(resume.state["tick"])
        for note in resume.notes:
            self._console.note(note)
        if not continued:
            self._console.note("the state of the envs is not known: they start new episodes; everything else goes on")
        # In lockstep the next chunk is in, as a rule, and its batch was packed by those who collected it.
        packed = self.schedule.ahead is None and all(chunk > tick for chunk in self._shared.finished)
        if packed:
            self._pack_again(tick + 1)
        self.pipeline.prefetch(tick + 1)
        if not packed:
            self.grant(tick + 1)
        self._write_progress(tick)
        self._timing.start(tick, self.pacer.counted(tick))
        self._timing.leave_out()  # the collectors that were ready first have waited for the others
        return tick

    def _pack_again(self, tick: int) -> None:
        """What the collectors did in lockstep at the end of their chunks, before anyone asks for it."""
        if self.plan.cfg.replay.sampler == "per":
            self.sampling.ask(tick)
            pack_drawn(self.plan, self._shared, tick)
        else:
            domain = [share.domain(tick) for share in self.schedule.shares]
            pack_batch(self.plan, self._shared, make_sampler(self.plan), tick, domain)

    # ------------------------------------------------------------ parts

    def _between_ticks(self) -> bool:
        """Whether learner and rows are where the last finished tick left them: nothing else can be gone on from."""
        if self.learner.updates != self.schedule.updates_until(self._tick):
            return False
        return self.schedule.ahead is not None or max(self._shared.finished) <= self._tick + 1

    def _show_prefill(self) -> None:
        self.progress.add_episodes(self._reports.take_episodes((0,) * len(self.replay.rings)))
        cfg, rounds = self.plan.cfg, sum(channel.counters["rounds"] for channel in self._shared.channels)
        made = rounds * (cfg.env.num_envs // cfg.pacing.num_collectors)  # with n-step returns more than there are rows
        self.progress.prefill(self.replay.cursor, self.schedule.prefill, self._reports.reward_sum / max(1, made))

    def _feed_normalisers(self, after: tuple[int, ...], upto: tuple[int, ...]) -> None:
        """Rows of the chunks after the first and up to the second, of each collector; -1: from the very first row."""
        for returns in self._reports.returns(after, upto):
            self.learner.observe_returns(returns)
        if not self.plan.cfg.learner.norm_obs:
            return
        columns = self.replay.layout.columns
        for ring, share, old, new in zip(self.replay.rings, self.schedule.shares, after, upto, strict=True):
            for rows in ring.read(share.watermark(old) if old >= 0 else ring.oldest, share.watermark(new)):
                critic = rows[:, columns["critic_obs"]] if "critic_obs" in columns else None
                self.learner.observe(
                    torch.from_numpy(rows[:, columns["obs"]].copy()),
                    None if critic is None else torch.from_numpy(critic.copy()),
                )

    def _write_progress(self, tick: int, *, last: bool = False) -> None:
        done = self._reports.totals(self.pacer.counted(tick))
        learner_ns = self.trace.totals_ns
        learner_s = {name: learner_ns.get(name, 0) / 1e9 for name in LEARNER_SPANS}
        now = Mark(
            env_steps=self.schedule.watermark(tick),
            updates=self.learner.updates,
            reward_sum=sum(part.reward for part in done),
            policy_lag=tick - 1 - self._acted(tick),
            seconds={"learner": learner_s, "collector": mean_seconds(done)},
            skipped=sum(part.skipped for part in done),
            dropped=self._reports.dropped,
            rejected=self.sampling.rejected,
            debt_chunks=self.pacer.debt,
            resident=self._resident(),
        )
        self.progress.write(now, last=last)

    def _acted(self, tick: int) -> int:
        """Version of the weights that collected the newest rows which a tick counts: newer ones may be coming in."""
        counted = zip(self.schedule.shares, self.pacer.counted(tick), strict=True)
        return self.replay.version_before([share.watermark(chunk) for share, chunk in counted])

    def _resident(self) -> dict[str, int]:
        """Memory by role; of those whose memory can be seen."""
        pids = {"learner": [os.getpid()], "collector": self.collectors.pids}
        found = {role: sum(resident_bytes(pid) or 0 for pid in of_role) for role, of_role in pids.items()}
        return {role: nbytes for role, nbytes in found.items() if nbytes}

    def _say_timing(self) -> None:
        if self._ready and (lines := self._timing.lines()):
            self._console.note("\n".join(lines))

    def _end_at_once(self) -> None:
        for kill in self._kills:
            kill()
        self._hooks.second_interrupt()

    def _end_interrupted(self) -> None:
        signal = self._interrupt.signal
        assert signal is not None
        saved = self._saver.wait() if self._ready else None
        self._say_timing()
        self._console.note(f"stopped by {signal.name}; saved {saved or 'nothing yet'}")
        self._ending.outcome("interrupted", f"stopped by {signal.name}", self._interrupt.exit_code)
        self._count()

    def _count(self) -> None:
        """Fill the summary: counters, digests, returns, and what is not on disk."""
        summary = self.summary
        summary.wall_time_s = self.plan.wall_s()
        if not self._ready:
            return
        newest = self._saver.wait()
        summary.checkpoint = str(newest) if newest else None
        for lost in (self._saver.lost, self.evaluations.lost):
            if summary.status != "failed" and lost:
                self._ending.lose(lost)
        for lost in self._log.lost():
            self._ending.lose(lost)
        summary.restarts = self.collectors.restarts
        episodes = self.progress.episodes
        summary.env_steps = self.replay.cursor
        summary.skipped_steps = self._reports.skipped
        summary.updates = self.learner.updates
        summary.ticks = self._tick
        summary.env_steps_per_s = summary.env_steps / summary.wall_time_s
        summary.updates_per_s = summary.updates / summary.wall_time_s
        summary.best_return = episodes.best
        summary.best_eval_mean = self.evaluations.best
        summary.mean_ep_length = episodes.scalars().get("rollout/ep_len_mean")
        summary.learner_digest = digest(self.learner.state_dict())
        summary.replay_digest = self.replay.digest()

"""What is settled before a run takes anything: device, threads, env, memory, and the header that says so."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unilab.algos.base import PolicySpec
from unilab.algos.compiled import Compute
from unilab.algos.policy_module import make_sight
from unilab.budget import Cores, ThreadBudget, check_memory, format_bytes, spread_cores
from unilab.checks.finding import warnings_of
from unilab.checks.quick import machine_findings, size_findings
from unilab.computing import pick_compute
from unilab.config import TrainConfig, check, threads_of
from unilab.envs.choice import choose
from unilab.envs.registry import probe
from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.errors import ConfigError, EnvError
from unilab.pacing import Schedule
from unilab.replay import HostSlots, Ring, RowLayout
from unilab.replay.priorities import Priorities
from unilab.resume import Preload, Resume, open_replay, open_weights, other_spaces
from unilab.rundir import create_run_dir
from unilab.spec import EnvSpec
from unilab.telemetry.trace import TraceSpec
from unilab.telemetry.trace_file import NAME as TRACE
from unilab.telemetry.trace_ticks import recorded_ticks
from unilab.telemetry.track import check_service
from unilab.watchdog import Deadline, ending_deadline
from unilab.workers.stats import LOCKSTEP_CHUNKS, CollectorStats

SLOTS = 2  # host slots: one is trained on while the other is filled

_TICK_LINES, _LINE_BYTES = 13, 110  # of the trace: besides env steps and updates; of a span

_AS_BEFORE = {"compiled": False, "precision": "fp32"}  # of checkpoints that do not say


@dataclass(frozen=True)
class Plan:
    """A run that has been found possible: everything that is decided before it starts."""

    cfg: TrainConfig
    spec: EnvSpec
    device: torch.device
    threads: ThreadBudget
    cores: Cores | None  # None: the system decides
    compute: Compute
    run_dir: Path
    t0_ns: int  # start of this process's part of the run on the clock of all its processes
    resume: Resume | None = None  # where the run goes on; None: it begins
    weights: Mapping[str, Any] | None = None  # of the learner that it begins with; None: random ones
    preload: Preload | None = None  # replay that it begins with; None: an empty one
    warnings: tuple[str, ...] = ()  # what would work, but perhaps not as meant

    @cached_property
    def schedule(self) -> Schedule:
        """All counts of the run."""
        schedule = self.cfg.schedule()
        if self.resume:
            return replace(schedule, preloaded=int(self.resume.state["preloaded"]))
        return replace(schedule, preloaded=min(self.preload.rows, schedule.capacity) if self.preload else 0)

    @cached_property
    def layout(self) -> RowLayout:
        """Columns of the replay's rows."""
        return row_layout(self.cfg, self.spec)

    @property
    def policy(self) -> PolicySpec:
        """What a worker needs to rebuild the policy."""
        cfg = self.cfg
        return PolicySpec(algo=cfg.algo, env=self.spec, learner=cfg.learner, algo_config=cfg.algo_config)

    @cached_property
    def trace(self) -> TraceSpec | None:
        """What is recorded; None without --trace."""
        cfg, schedule = self.cfg, self.schedule
        if not cfg.trace:
            return None
        max_bytes = cfg.trace_mb * 10**6
        lines = _TICK_LINES + 3 * cfg.pacing.steps_per_tick + schedule.max_updates
        ticks = recorded_ticks(
            cfg.trace_ticks,
            total_ticks=schedule.total_ticks,
            bytes_per_tick=_LINE_BYTES * lines,
            max_bytes=max_bytes,
        )
        return TraceSpec(
            path=self.run_dir / TRACE, t0_ns=self.t0_ns, ticks=ticks, max_bytes=max_bytes, cpu=cfg.trace_cpu
        )

    @property
    def starts(self) -> int:
        """How often the run has been started, this time included."""
        return 1 + int(self.resume.state["starts"]) if self.resume else 1

    @property
    def start_steps(self) -> int:
        """Env steps counted before this start."""
        return self.schedule.watermark(int(self.resume.state["tick"])) if self.resume else 0

    def wall_s(self) -> float:
        """Seconds that the run has taken, up to the checkpoint that it goes on from and since this start."""
        before = float(self.resume.state["wall_time_s"]) if self.resume else 0.0
        return before + (time.perf_counter_ns() - self.t0_ns) / 1e9


def plan_run(cfg: TrainConfig, resume: Resume | None = None, deadline: Deadline = ending_deadline) -> Plan:
    """Check everything that can be checked, then make the run directory, unless a run goes on in its own.

    Args:
        cfg: of the run.
        resume: where it goes on.
        deadline: of the env that is made in this process to look at.

    Raises:
        UsageError: the run cannot work; nothing was started and nothing written.
    """
    t0_ns = time.perf_counter_ns()
    check(cfg)
    if multiprocessing.current_process().daemon and not cfg.serial:
        raise ConfigError(
            "this process is a worker of multiprocessing.Pool, or daemonic otherwise, and may start no processes: "
            "use concurrent.futures.ProcessPoolExecutor, or serial=True"
        )
    check_service(cfg.track)
    device = pick_device(cfg.device)
    threads = threads_of(cfg)
    cores = spread_cores(cfg.pacing.num_collectors, threads.learner) if cfg.affinity == "spread" else None
    compute = pick_compute(cfg, device, resume.state.get("compute", _AS_BEFORE) if resume else None)
    warnings = warnings_of(machine_findings(cfg, threads, device))
    spec = look_at_env(cfg, deadline)
    if cfg.learner.symmetry and spec.mirror is None:
        raise ConfigError(
            f"symmetry=True cannot work with {cfg.env.env}: it declares no mirror map (docs/envs.md); leave it out"
        )
    make_sight(spec, cfg.learner)  # refuses an encoder where there is nothing to encode
    check_run_memory(cfg, spec)
    warnings += warnings_of(size_findings(cfg, spec, memory_needs(cfg, spec), row_bytes(cfg, spec)))
    if resume:
        check_resume(cfg, spec, resume)
        return Plan(cfg, spec, device, threads, cores, compute, resume.run_dir, t0_ns, resume, warnings=warnings)
    weights = open_weights(cfg.init_from, cfg.algo) if cfg.init_from else None
    preload = open_replay(cfg.replay_from, cfg, spec, row_layout(cfg, spec).width) if cfg.replay_from else None
    try:
        run_dir = create_run_dir(cfg.log_dir, cfg.env.env, cfg.algo, cfg.seed, cfg.name)
    except OSError as error:
        raise ConfigError(
            f"no run directory can be made in log_dir={cfg.log_dir} ({error}); use --log-dir, or another --name"
        ) from error
    return Plan(
        cfg, spec, device, threads, cores, compute, run_dir, t0_ns, weights=weights, preload=preload, warnings=warnings
    )


def look_at_env(cfg: TrainConfig, deadline: Deadline) -> EnvSpec:
    """Make one env in this process for its spec, within the start limit.

    Raises:
        EnvError: it cannot be made, or ends the process.
    """
    # Whoever is in a debugger has all the time in the world.
    what = f"making one {cfg.env.env} to look at"
    limit = nullcontext() if cfg.serial else deadline(cfg.pacing.start_limit_s, what)
    try:
        with limit:
            return probe(cfg.env)
    except SystemExit as error:
        raise EnvError(
            f"{cfg.env.env}: it called sys.exit({error.code!r}) when it was made, reset or stepped"
        ) from error


def check_resume(cfg: TrainConfig, spec: EnvSpec, resume: Resume) -> None:
    """Refuse to go on where nothing is left to do, or where the env is not what it was.

    Raises:
        ConfigError: says what to raise, or what differs.
    """
    if found := other_spaces(resume.checkpoint, spec):
        raise ConfigError(f"resume: {cfg.env.env} has other spaces than when {resume.checkpoint} was saved: {found}")
    if cfg.pacing.ahead is None and len(set(resume.state["finished"])) > 1:
        raise ConfigError(
            f"resume: {resume.checkpoint} was saved while its collectors were at different chunks, by an earlier "
            "unilab; go on from the checkpoint before it"
        )
    tick, schedule = int(resume.state["tick"]), cfg.schedule()
    if tick >= schedule.total_ticks:
        raise ConfigError(
            f"resume: {resume.checkpoint.name} has done {schedule.watermark(tick):,} env steps of "
            f"total_steps={cfg.total_steps:,}; raise --total-steps to go on"
        )


def pick_device(name: str) -> torch.device:
    """The learner's device.

    Raises:
        ConfigError: unknown, or not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r} is not a device: use auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device={name!r} is not supported: use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices")
    return device


def row_layout(cfg: TrainConfig, spec: EnvSpec) -> RowLayout:
    """Columns of the run's rows."""
    return RowLayout(spec.obs_dim, spec.action_dim, spec.critic_dim, cfg.learner.n_step)


def row_bytes(cfg: TrainConfig, spec: EnvSpec) -> int:
    """Bytes of a row in the ring, its policy version included."""
    return row_layout(cfg, spec).width * 4 + 8


def episode_capacity(share: Schedule, n_step: int) -> int:
    """Episodes of a collector that can end before the learner looks: one an env step in the prefill and its chunks.

    A collector that begins, or replaces another, does ``n_step - 1`` rounds more.
    """
    return share.prefill + told_chunks(share) * share.chunk_rows + 3 * (n_step - 1) * share.num_envs


def told_chunks(share: Schedule) -> int:
    """Newest chunks of a collector whose statistics are kept apart: those it may be ahead, and some to look back at."""
    return LOCKSTEP_CHUNKS if share.ahead is None else share.ahead + LOCKSTEP_CHUNKS


def packers(schedule: Schedule) -> int:
    """Processes that pack a part of each batch."""
    return schedule.num_collectors if schedule.ahead is None else 1


def slot_rows(cfg: TrainConfig) -> int:
    """Rows of the largest batch; at least one, because memory cannot be empty."""
    return max(1, cfg.schedule().max_updates * cfg.replay.batch_size)


def memory_needs(cfg: TrainConfig, spec: EnvSpec) -> dict[str, int]:
    """Bytes of the large parts of a run."""
    schedule, layout, per = cfg.schedule(), row_layout(cfg, spec), cfg.replay.sampler == "per"
    return {
        "ring": Ring.required_bytes(cfg.replay.buffer_size, layout),
        "host slots": HostSlots.required_bytes(SLOTS, slot_rows(cfg), layout, packers(schedule), drawn=per),
        **({"priorities": Priorities.required_bytes(schedule.capacity)} if per else {}),
        "statistics": sum(
            CollectorStats.required_bytes(
                episode_capacity(share, cfg.learner.n_step),
                len(EPISODE_COLUMNS) + len(spec.metric_names),
                told_chunks(share),
            )
            for share in schedule.shares
        ),
    }


def check_run_memory(cfg: TrainConfig, spec: EnvSpec) -> None:
    """Refuse a run that does not fit into memory; see ``budget.check_memory``."""
    check_memory(memory_needs(cfg, spec), row_bytes=row_bytes(cfg, spec), buffer_size=cfg.replay.buffer_size)


def header(plan: Plan, facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names and values that describe a run at its start; ``facts`` are the learner's."""
    cfg, spec, schedule, choice = plan.cfg, plan.spec, plan.schedule, choose(plan.cfg.env)
    needs = ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in memory_needs(cfg, spec).items())
    critic = f", critic [{spec.critic_dim}]" if spec.critic_dim else ""
    backend = f"backend {choice.name} ({choice.why})"
    keys = f" from {', '.join(spec.obs_keys)}" if spec.obs_keys else ""
    return [
        ("run", str(plan.run_dir)),
        *([("resumed", f"at env step {plan.start_steps:,} from {plan.resume.checkpoint}")] if plan.resume else []),
        ("env", f"{spec.env_id} x {cfg.env.num_envs}, obs [{spec.obs_dim}]{keys}{critic}; {backend}"),
        ("action", f"[{spec.action_dim}] in {_bounds(spec)}"),
        ("algo", f"{cfg.algo}, " + ", ".join(f"{name} {value}" for name, value in facts.items())),
        (
            "pacing",
            f"{_pacing(cfg)}: {schedule.total_steps:,} env steps, "
            f"{schedule.prefill:,} of them {'random' if schedule.uniform_prefill else 'before learning'}; "
            f"utd {cfg.pacing.utd:g}, {schedule.chunk_rows} env steps and up to {schedule.max_updates} updates a tick",
        ),
        (
            "replay",
            f"{cfg.replay.buffer_size:,} rows of {plan.layout.width} floats, n_step {cfg.learner.n_step}, "
            f"batch {cfg.replay.batch_size}, drawn {_drawn(cfg)}",
        ),
        ("memory", needs),
        ("device", f"{plan.device}; threads: learner {plan.threads.learner}, {_collector_threads(plan)}"),
        ("update", str(plan.compute)),
    ]


def _pacing(cfg: TrainConfig) -> str:
    pacing = cfg.pacing
    collectors = f", {pacing.num_collectors} collectors" if pacing.num_collectors > 1 else ""
    if pacing.ahead is None:
        return f"{'serial' if cfg.serial else 'lockstep'}{collectors}"
    lag = "" if pacing.max_policy_lag is None else f", policy lag {pacing.lag_action} {pacing.max_policy_lag}"
    return f"free-running{collectors}, up to {pacing.ahead} chunks ahead{lag}"


def _drawn(cfg: TrainConfig) -> str:
    replay = cfg.replay
    if replay.sampler == "uniform":
        return "uniformly"
    return f"by priority (alpha {replay.per_alpha:g}, beta {replay.per_beta:g} to {replay.per_beta_final:g})"


def _collector_threads(plan: Plan) -> str:
    count, threads = plan.cfg.pacing.num_collectors, plan.threads.collector
    return f"collector {threads}" if count == 1 else f"{count} collectors {threads} each"


def _bounds(spec: EnvSpec) -> str:
    """One interval where all dimensions share it, else one each."""
    pairs = dict.fromkeys(zip(spec.action_low, spec.action_high, strict=True))
    text = ", ".join(f"[{np.float32(low):g}, {np.float32(high):g}]" for low, high in list(pairs)[:8])
    return text + (", ..." if len(pairs) > 8 else "")

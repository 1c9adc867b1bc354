"""Where the time of a dry run went, read from its trace, and what that makes of the whole run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from unilab.checks.finding import Finding, ok
from unilab.config import TrainConfig
from unilab.telemetry.trace_read import read_trace

Spans = dict[str, list[tuple[float, float]]]
"""Start and end of each span, in seconds of the run, by name and in order."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds and speeds of a small run."""

    first_step_s: float  # from the command on
    first_update_s: float  # from the command on
    prefill_step_s: float  # per env step
    tick_s: float  # mean over the second half
    save_s: float
    end_s: float  # after the save: evaluation and closing


def read_timing(small: TrainConfig, run_dir: Path, spawned_s: float, wall_s: float) -> Timing:
    """Times out of a finished run's ``trace.json``.

    Args:
        small: config of that run.
        run_dir: its directory.
        spawned_s: from the command until the run began, imports included.
        wall_s: of the run.
    """
    spans = read_spans(run_dir / "trace.json")
    ticks = spans["tick"]
    first_step_s = spans["env_step"][0][0]
    save_start_s, save_end_s = spans["save"][-1]
    half = len(ticks) // 2
    return Timing(
        first_step_s=spawned_s + first_step_s,
        first_update_s=spawned_s + spans["update"][0][0],
        prefill_step_s=(ticks[0][0] - first_step_s) / small.schedule().prefill,
        tick_s=(ticks[-1][1] - ticks[half][0]) / (len(ticks) - half),
        save_s=save_end_s - save_start_s,
        end_s=max(0.0, wall_s - save_end_s),
    )


def read_spans(trace: Path) -> Spans:
    """The spans of learner and collector."""
    spans: Spans = {}
    read = read_trace(trace)
    for process in (read.process("learner"), read.process("collector-0")):
        for span in itertools.chain.from_iterable(process.tracks.values()):
            spans.setdefault(span.name, []).append((span.start, span.end))
    return {name: sorted(times) for name, times in spans.items()}


def timing_findings(cfg: TrainConfig, timing: Timing) -> list[Finding]:
    """What a cycle took, and about how long the run of ``cfg`` will."""
    schedule = cfg.schedule()
    steps_per_s = schedule.chunk_rows / timing.tick_s
    whole_s = timing.first_step_s + timing.end_s + schedule.prefill * timing.prefill_step_s
    whole_s += schedule.total_ticks * timing.tick_s
    whole_s += timing.save_s * (cfg.total_steps // cfg.save_every if cfg.save_every else 1)
    return [
        ok(
            "dry run",
            f"first env step after {timing.first_step_s:.1f} s, first update after {timing.first_update_s:.1f} s; "
            f"save {timing.save_s:.2f} s, evaluation and end {timing.end_s:.1f} s",
        ),
        ok(
            "duration",
            f"{steps_per_s:,.4g} env steps/s and {steps_per_s * float(schedule.utd):,.4g} updates/s while learning: "
            f"about {format_s(whole_s)} for {cfg.total_steps:,} env steps",
        ),
    ]


def format_s(seconds: float) -> str:
    """``45 s``, ``10 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

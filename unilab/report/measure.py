"""Everything that the report says, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unilab.errors import UnilabError
from unilab.report.critical import critical_path
from unilab.report.intervals import Interval, common, length, union
from unilab.report.segments import OTHER, flatten, seconds_by_name
from unilab.telemetry.timing import TickStats, Timing
from unilab.telemetry.trace_read import ProcessRead, SpanRead, TraceRead

COLLECT = frozenset({"fetch", "act", "env_step", "append"})
_UPDATES, _COPIES = "cuda_update", "cuda_copy"  # at device time, where there is one


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a counter's values."""

    mean: float
    p50: float
    p95: float
    largest: float


@dataclass(frozen=True, slots=True)
class TraceReport:
    """A trace in numbers; times in seconds, shares from 0 to 1."""

    whole: bool  # the trace was ended as it should
    facts: Mapping[str, Any]  # of the run, as it says itself
    recorded_ticks: int
    last_tick: int
    timing: Timing
    collect_s: float  # median per tick
    update_s: float  # median per tick
    tick_over_longer: float  # median of a tick over the longer of the two: 1 is perfect overlap
    hidden: Mapping[str, float]  # share of collect, pack, copy behind updates
    critical: Mapping[str, float]  # share of the critical path by process and span
    counters: Mapping[str, Spread]  # policy lag, row age and, free-running, the lags of chunks


def measure(trace: TraceRead) -> TraceReport:
    """Look at the stretches of recorded ticks.

    Raises:
        UnilabError: it holds no tick.
    """
    learner = trace.process("learner")
    ticks = [span for span in learner.main if span.name == "tick"]
    if not ticks:
        raise UnilabError(
            "the trace holds no finished tick: the run ended before its first, or --trace-ticks left all out"
        )
    groups = _stretches(ticks)
    windows = [(group[0].start, group[-1].start if len(group) > 1 else group[0].end) for group in groups]
    wall_s = length(windows)
    facts = next((instant.args for instant in learner.instants if instant.name == "run"), {})
    lanes = {
        name: flatten(spans, windows)
        for name, spans in _lanes(trace)
        if name == "learner" or any(start < span.end and span.start < end for start, end in windows for span in spans)
    }
    split = {name: {k: v / wall_s for k, v in seconds_by_name(lane).items()} for name, lane in lanes.items()}
    periods = np.concatenate([_periods(group) for group in groups])
    period_s = float(periods.mean())
    first, last = ticks[0], ticks[-1]
    numbers = int(last.args.get("tick", len(ticks))) - int(first.args.get("tick", 1))
    # From the first to the last, also over ticks that were not recorded.
    per_s = numbers / (last.start - first.start) if numbers else 1 / period_s
    rows = int(facts.get("rows_per_tick", 1))
    collectors = [trace.processes[name] for name in trace.processes if name.startswith("collector")]
    collect, pack = (union(_of(collectors, names)) for names in (COLLECT, {"pack"}))
    updates = union(_of([learner], {_UPDATES}) or _of([learner], {"update"}))
    # A copy on the learner's own thread hides behind nothing; on the CPU there is none.
    copies = union(_of([learner], {_COPIES}) or _off_main(learner, "copy"))
    starts = np.concatenate([[span.start for span in group] for group in groups])
    collect_s, update_s = _per_period(collect, windows, groups), _per_period(updates, windows, groups)
    return TraceReport(
        whole=trace.whole,
        facts=facts,
        recorded_ticks=len(starts),
        last_tick=int(last.args.get("tick", len(ticks))),
        timing=Timing(
            TickStats(len(periods), period_s, *(float(x) for x in np.percentile(periods, [50, 90, 99]))),
            env_steps_per_s=per_s * rows,
            updates_per_s=per_s * rows * float(facts.get("utd", 1)),
            split=split,
            serial=bool(facts.get("serial", False)),
            free=facts.get("pacing") == "free",
        ),
        collect_s=float(np.median(collect_s)),
        update_s=float(np.median(update_s)),
        tick_over_longer=float(np.median(periods / np.maximum(np.maximum(collect_s, update_s), 1e-9))),
        hidden={
            name: length(common(common(part, windows), updates)) / length(common(part, windows))
            for name, part in (("collect", collect), ("pack", pack), ("copy", copies))
            if common(part, windows)
        },
        critical={name: seconds / wall_s for name, seconds in _critical(lanes, windows).items()},
        counters=_counters(learner, collectors),
    )


def _counters(learner: ProcessRead, collectors: Sequence[ProcessRead]) -> dict[str, Spread]:
    values = {
        name: [value for _, sample in learner.counters.get(name, []) for value in sample.values()]
        for name in ("policy lag", "row age")
    }
    samples = [sample for process in collectors for _, sample in process.counters.get("chunk lag", [])]
    for key in ("at_launch", "at_arrival"):
        values[f"chunk lag {key.replace('_', ' ')}"] = [sample[key] for sample in samples]
    return {name: _spread(found) for name, found in values.items() if found}


def _spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.mean(values)), *(float(x) for x in np.percentile(values, [50, 95, 100])))


def _stretches(ticks: Sequence[SpanRead]) -> list[list[SpanRead]]:
    """Ticks in groups whose numbers follow one another; ticks without a number are one group."""
    groups: list[list[SpanRead]] = []
    for tick in ticks:
        before = groups[-1][-1].args.get("tick") if groups else None
        if groups and (before is None or tick.args.get("tick") == before + 1):
            groups[-1].append(tick)
        else:
            groups.append([tick])
    # A single tick says little, but is all there is of a run that short.
    return [group for group in groups if len(group) > 1] or groups[:1]


def _periods(group: Sequence[SpanRead]) -> np.ndarray:
    starts = [span.start for span in group]
    return np.diff(starts) if len(group) > 1 else np.array([group[0].seconds])


def _lanes(trace: TraceRead) -> Iterable[tuple[str, list[SpanRead]]]:
    """Every thread by its process's name; one that is not the main thread with its own name behind."""
    for process in sorted(trace.processes.values(), key=lambda p: (p.name != "learner", p.name)):
        for track, spans in process.tracks.items():
            yield (process.name if track == "main" else f"{process.name}/{track}"), spans


def _of(processes: Iterable[ProcessRead], names: Iterable[str]) -> list[Interval]:
    return [
        (span.start, span.end)
        for process in processes
        for spans in process.tracks.values()
        for span in spans
        if span.name in names
    ]


def _off_main(process: ProcessRead, name: str) -> list[Interval]:
    tracks = (spans for track, spans in process.tracks.items() if track != "main")
    return [(span.start, span.end) for spans in tracks for span in spans if span.name == name]


def _per_period(parts: list[Interval], windows: Sequence[Interval], groups: Sequence[Sequence[SpanRead]]) -> np.ndarray:
    """Seconds of ``parts`` in each period."""
    edges = np.array(parts).reshape(-1, 2)
    lengths = np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])])

    def until(times: np.ndarray) -> np.ndarray:
        index = np.searchsorted(edges[:, 0], times, side="right")
        over = (
            np.where(index > 0, np.maximum(edges[np.maximum(index - 1, 0), 1] - times, 0.0), 0.0) if len(edges) else 0
        )
        return np.asarray(lengths[index] - over)

    result = []
    for group, (_, end) in zip(groups, windows, strict=True):
        starts = [span.start for span in group] if len(group) > 1 else [group[0].start, end]
        result.append(np.diff(until(np.array(starts))))
    return np.concatenate(result)


def _critical(lanes: Mapping[str, Any], windows: Sequence[Interval]) -> dict[str, float]:
    collectors = [name for name in lanes if name.startswith("collector") and "/" not in name]
    copier = "learner/copier"
    return critical_path(
        {name: lane for name, lane in lanes.items() if name in ("learner", copier, *collectors)},
        windows,
        waits={
            "learner": frozenset({"wait_batch"}),
            copier: frozenset({OTHER}),
            **dict.fromkeys(collectors, frozenset({"wait_grant"})),
        },
        feeders={"learner": [copier, *collectors], copier: collectors, **{name: ["learner"] for name in collectors}},
        last="learner",
    )

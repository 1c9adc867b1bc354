"""The report for people."""

from __future__ import annotations

from collections.abc import Mapping

from unilab.report.measure import TraceReport
from unilab.telemetry.timing import advice, timing_lines

_MOST = 5  # parts of the critical path that are named


def report_lines(report: TraceReport) -> list[str]:
    """One trace."""
    *timing, said = timing_lines(report.timing)
    facts = report.facts
    lines = [f"run  {facts['algo']} on {facts['env']} x {facts['num_envs']}, {facts['device']}"] if facts else []
    if not report.whole:
        lines.append("cut  the trace was not ended: the run was killed or still goes on")
    if report.recorded_ticks < report.last_tick:
        lines.append(f"part {report.recorded_ticks:,} of {report.last_tick:,} ticks were recorded")
    lines += timing
    lines.append(
        f"overlap  {_shares(report.hidden) or 'nothing'} hidden behind updates; "
        f"a tick takes {report.tick_over_longer:.3f} times the longer of "
        f"collecting ({report.collect_s * 1e3:.3g} ms) and updating ({report.update_s * 1e3:.3g} ms)"
    )
    path = sorted(report.critical.items(), key=lambda item: -item[1])
    rest = sum(share for _, share in path[_MOST:])
    shown = dict(path[:_MOST]) | ({"rest": rest} if rest else {})
    lines.append(f"critical path  {_shares(shown)}")
    for name, of in report.counters.items():
        lines.append(f"{name}  mean {of.mean:.3g}, p50 {of.p50:g}, p95 {of.p95:g}, largest {of.largest:.4g} versions")
    return [*lines, said]


def compare_lines(a: TraceReport, b: TraceReport) -> list[str]:
    """Two traces side by side: the first, the second, and the second over the first."""
    rows = [
        ("tick, median (ms)", a.timing.ticks.median * 1e3, b.timing.ticks.median * 1e3),
        ("tick, p99 (ms)", a.timing.ticks.p99 * 1e3, b.timing.ticks.p99 * 1e3),
        ("env steps/s", a.timing.env_steps_per_s, b.timing.env_steps_per_s),
        ("updates/s", a.timing.updates_per_s, b.timing.updates_per_s),
    ]
    lines = [f"{'':<28} {'A':>10} {'B':>10} {'B/A':>8}"]
    lines += [f"{name:<28} {x:>10.4g} {y:>10.4g} {y / x if x else float('nan'):>8.3f}" for name, x, y in rows]
    for process in dict.fromkeys([*a.timing.split, *b.timing.split]):
        ours, theirs = (report.timing.split.get(process, {}) for report in (a, b))
        for name in sorted({*ours, *theirs}, key=lambda name: -max(ours.get(name, 0), theirs.get(name, 0))):
            x, y = ours.get(name, 0.0) * a.timing.ticks.mean, theirs.get(name, 0.0) * b.timing.ticks.mean
            if max(x, y) >= 0.005 * max(a.timing.ticks.mean, b.timing.ticks.mean):
                ratio = f"{y / x:>8.3f}" if x else f"{'new':>8}"
                lines.append(f"{f'{process} {name} (ms/tick)':<28} {x * 1e3:>10.4g} {y * 1e3:>10.4g} {ratio}")
    return [*lines, f"A  {advice(a.timing)}", f"B  {advice(b.timing)}"]


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())

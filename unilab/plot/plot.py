"""From options to a picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from unilab.errors import ConfigError
from unilab.plot.band import common
from unilab.plot.curve import Curve, Run, evaluations, find_runs, training
from unilab.plot.figure import draw, require_matplotlib
from unilab.plot.group import Group, group
from unilab.plot.options import PlotOptions

_SHORT = 0.9  # of the longest seed
_READERS = {"evaluation": evaluations, "training": training}


def plot(options: PlotOptions) -> int:
    """Draw what the options ask for, and say so.

    Raises:
        UsageError: there is nothing to draw, or nothing to draw with; one sentence.
        UnilabError: a file cannot be read or written; one sentence.
    """
    require_matplotlib()
    runs = find_runs(options.runs, options.log_dir)
    source, curves = _read(runs, options.source)
    groups = group(curves)
    draw(groups, options.out, source=source, kind=options.band, title=options.title)
    for one in groups:
        _warn_of_short(one)
        _warn_of_apart(one)
    told = "; ".join(f"{one.env}, {one.label}: {one.seeds}" for one in groups)
    count = f"{len(curves)} runs" if len(curves) > 1 else "1 run"
    sys.stdout.write(f"{options.out}: {source} returns of {count} ({told})\n")
    return 0


def _read(runs: Sequence[Run], wanted: str) -> tuple[str, list[tuple[Run, Curve]]]:
    """One kind of returns for all runs: evaluations and noisy training episodes do not belong into one picture."""
    source = wanted
    if wanted == "auto":
        source = "evaluation" if all(evaluations(run) for run in runs) else "training"
    curves = [(run, _READERS[source](run)) for run in runs]
    there = [(run, curve) for run, curve in curves if curve is not None]
    for run, curve in curves:
        if curve is None and there:
            sys.stderr.write(f"unilab: {run.path} has no two points of {source} yet; it is left out\n")
    if not there:
        raise ConfigError(
            f"there is nothing to draw: no run has two points of {source} yet, the first is {runs[0].path}"
        )
    return source, there


def _warn_of_short(one: Group) -> None:
    """Say so where a seed that ended early cuts the mean of the others."""
    ends = [float(curve.env_steps[-1]) for curve in one.curves]
    if min(ends) < _SHORT * max(ends):
        sys.stderr.write(
            f"unilab: {one.env}, {one.label}: the mean ends at {min(ends):,.0f} env steps, as its shortest seed does; "
            f"the longest has {max(ends):,.0f}\n"
        )


def _warn_of_apart(one: Group) -> None:
    """Say so where seeds have no mean, because they never are at one place of an axis together."""
    for axis, words in (("env_steps", "env steps"), ("seconds", "seconds")):
        start, stop = common(one.curves, axis)
        if start > stop:
            sys.stderr.write(
                f"unilab: {one.env}, {one.label}: no mean over {words}: one seed ends at {stop:,.0f}, "
                f"another begins at {start:,.0f}\n"
            )

"""Returns over wall time: when a threshold was reached, the table of all contenders, the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from contenders import Contender


@dataclass(frozen=True, slots=True)
class Point:
    """A judged snapshot."""

    env_steps: int
    time_s: float  # of the run's clock
    mean: float  # return over the judge's episodes
    std: float


@dataclass(slots=True, kw_only=True)
class Run:
    """One contender, one seed."""

    contender: str
    seed: int
    ended: Literal["threshold", "limit", "end"]
    clock_s: float
    held_s: float  # while it was judged, not on the clock
    load_before: float  # of the machine, when it began: over 0.5 something else was running
    curve: list[Point] = field(default_factory=list)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Run:
        """From its JSON form."""
        return cls(**{**content, "curve": [Point(**point) for point in content["curve"]]})

    def add(self, env_steps: int, time_s: float, returns: np.ndarray, threshold: float) -> bool:
        """Take a judged snapshot in; whether it reaches the threshold."""
        self.curve.append(Point(env_steps, time_s, float(returns.mean()), float(returns.std())))
        return self.curve[-1].mean >= threshold


def reached_s(curve: Sequence[Point], threshold: float) -> float:
    """Seconds until the first snapshot whose mean is at least the threshold, infinite where there is none.

    Nothing is interpolated: between two snapshots nobody looked.
    """
    return next((point.time_s for point in curve if point.mean >= threshold), math.inf)


def is_enough(run: Run, threshold: float, limit_s: float) -> bool:
    """Whether a stored run says all that a run with this threshold and limit would."""
    if math.isfinite(reached_s(run.curve, threshold)) or run.ended == "end":
        return True
    return run.ended == "limit" and run.clock_s >= limit_s


def table(
    chosen: Sequence[Contender], runs: Sequence[Run], threshold: float
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Seconds to the threshold, per seed and as median, and how many times faster than the best peer of its recipe.

    Returns:
        Lines to print, and the same as numbers by contender.
    """
    seeds = sorted({run.seed for run in runs})
    rows: dict[str, dict[str, Any]] = {}
    for one in chosen:
        seconds = [reached_s(run.curve, threshold) for run in runs if run.contender == one.name]
        rows[one.name] = {
            "recipe": one.recipe,
            "precision": one.precision,
            "seconds": seconds,
            "median_s": float(np.median(seconds)),
        }
    for row in rows.values():
        peers = [rows[one.name]["median_s"] for one in chosen if one.peer and one.recipe == row["recipe"]]
        row["times_best_peer"] = faster(min(peers, default=math.inf), row["median_s"])
    lines = []
    for recipe in dict.fromkeys(one.recipe for one in chosen):
        heads = "".join(f"{f'seed {seed}':>9}" for seed in seeds)
        lines += [f"== {recipe}, seconds to a mean return of {threshold:g}"]
        lines += [f"  {'':28}{'precision':>10}{heads}{'median':>9}  times as fast as the best peer"]
        for name, row in rows.items():
            if row["recipe"] == recipe:
                cells = "".join(f"{_seconds(value):>9}" for value in (*row["seconds"], row["median_s"]))
                lines.append(f"  {name:28}{row['precision']:>10}{cells}  {_ratio(row['times_best_peer'])}")
    return lines, rows


def faster(peer_s: float, own_s: float) -> float:
    """Peer's time over one's own; NaN where neither got there."""
    if math.isinf(peer_s):
        return math.nan if math.isinf(own_s) else math.inf
    return peer_s / own_s


def band(curves: Sequence[Sequence[Point]], points: int = 200) -> np.ndarray | None:
    """[4, points]: time, mean, lowest and highest return over seeds, as long as all last; None without a curve."""
    if not curves or not all(curves):
        return None
    start = max(curve[0].time_s for curve in curves)
    stop = min(curve[-1].time_s for curve in curves)
    if stop < start:
        return None
    time_s = np.linspace(start, stop, points)
    values = np.array([np.interp(time_s, [p.time_s for p in curve], [p.mean for p in curve]) for curve in curves])
    return np.stack([time_s, values.mean(axis=0), values.min(axis=0), values.max(axis=0)])


def draw(chosen: Sequence[Contender], runs: Sequence[Run], threshold: float, path: Path, env: str) -> None:
    """A panel a recipe: mean and range over seeds, peers dashed; dots where a seed reached the threshold."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    recipes = list(dict.fromkeys(one.recipe for one in chosen))
    size = (6.4 * len(recipes), 4.2)
    figure, axes = plt.subplots(1, len(recipes), figsize=size, sharey=True, squeeze=False, constrained_layout=True)
    for axis, recipe in zip(axes[0], recipes, strict=True):
        for one in (one for one in chosen if one.recipe == recipe):
            curves = [run.curve for run in runs if run.contender == one.name]
            _draw_one(axis, one, curves, threshold)
        axis.axhline(threshold, color="grey", linewidth=1)
        axis.set_title(recipe)
        axis.set_xlabel("wall time, s, from the start of the process")
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8)
    axes[0][0].set_ylabel("return, deterministic policy")
    figure.suptitle(f"{env}: mean and range over seeds")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_one(axis: Any, one: Contender, curves: Sequence[Sequence[Point]], threshold: float) -> None:
    drawn = band(curves)
    if drawn is None:
        return
    time_s, mean, low, high = drawn
    (line,) = axis.plot(time_s, mean, label=f"{one.name}, {one.precision}", linestyle="--" if one.peer else "-")
    axis.fill_between(time_s, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    there = [seconds for curve in curves if math.isfinite(seconds := reached_s(curve, threshold))]
    axis.plot(there, [threshold] * len(there), "o", color=line.get_color(), markersize=4)


def _seconds(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.1f}"


def _ratio(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "(no peer got there)" if math.isinf(value) else f"{value:.2f}"

"""The picture: a row of two panels for each env."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unilab.draft import draft, writing
from unilab.errors import ConfigError
from unilab.plot.band import band
from unilab.plot.group import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 10.0, 3.8  # inches of a row; 110 dots to each
_DPI = 110
_BANDS = {"range": "lowest to highest seed", "std": "± 1 std over seeds", "interval": "95 % interval of the mean"}
_Y = {"evaluation": "return, evaluation without noise", "training": "return, last 100 training episodes"}
_MINUTES_FROM_S, _HOURS_FROM_S = 600.0, 36_000.0


def require_matplotlib() -> None:
    """Refuse early where nothing can be drawn.

    Raises:
        ConfigError: says what to install.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"plot needs the package matplotlib ({error}); pip install -e '.[plot]', or 'pip install matplotlib'"
        ) from error


def draw(groups: Sequence[Group], path: Path, *, source: str, kind: str, title: str | None) -> None:
    """Write the picture; its format is its suffix's.

    Args:
        groups: curves with their labels.
        path: of the file.
        source: ``evaluation`` or ``training``, for the label.
        kind: of the band; see ``band``.
        title: above all panels; None: the env's name.

    Raises:
        UnilabError: it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    by_env: dict[str, list[Group]] = {}
    for one in groups:
        by_env.setdefault(one.env, []).append(one)
    figure = Figure(figsize=(_WIDTH, _HEIGHT * len(by_env)), layout="constrained", dpi=_DPI)
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(by_env), 2, sharey="row", squeeze=False)
    several = any(len(one.curves) > 1 for one in groups)
    for (left, right), (env, of_env) in zip(rows, by_env.items(), strict=True):
        _panel(left, of_env, "env_steps", kind)
        _panel(right, of_env, "seconds", kind)
        left.set_ylabel(_Y[source])
        if len(by_env) > 1:
            left.set_title(env, loc="left")
        left.legend(title=f"mean; band: {_BANDS[kind]}" if several else None, fontsize="small", title_fontsize="small")
    heading = title if title is not None else next(iter(by_env)) if len(by_env) == 1 else None
    if heading:
        figure.suptitle(heading)
    with draft(path) as aside, writing(path):
        figure.savefig(aside, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _panel(axes: Axes, groups: Sequence[Group], axis: str, kind: str) -> None:
    unit, divisor = _unit(groups) if axis == "seconds" else ("env steps", 1.0)
    for k, one in enumerate(groups):
        colour = f"C{k % 10}"
        for curve in one.curves if len(one.curves) > 1 else ():
            axes.plot(getattr(curve, axis) / divisor, curve.returns, color=colour, alpha=0.4, linewidth=0.8)
        label = f"{one.label} ({one.seeds})"
        if (over := band(one.curves, axis, kind)) is None:
            axes.plot([], [], color=colour, linewidth=0.8, label=label)  # no mean: its seeds are its thin lines
            continue
        axes.plot(over.x / divisor, over.mean, color=colour, linewidth=1.8, label=label)
        axes.fill_between(over.x / divisor, over.low, over.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel(unit if axis == "env_steps" else f"wall time, {unit}")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    if axis == "env_steps":
        axes.xaxis.set_major_formatter(lambda value, _: _steps(value))


def _unit(groups: Sequence[Group]) -> tuple[str, float]:
    longest = max(float(curve.seconds[-1]) for one in groups for curve in one.curves)
    if longest < _MINUTES_FROM_S:
        return "s", 1.0
    return ("min", 60.0) if longest < _HOURS_FROM_S else ("h", 3600.0)


def _steps(value: float) -> str:
    """1500000 as 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"

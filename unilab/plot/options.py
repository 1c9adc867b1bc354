"""The options of ``unilab plot``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unilab.arguments import Parser, add_log_dir, check_file
from unilab.errors import ConfigError

SOURCES = ("auto", "evaluation", "training")
BANDS = ("range", "std", "interval")

_DESCRIPTION = """Draw returns over env steps and over wall time. Runs that differ in their seed only are one curve:
the mean over the seeds and a band. A folder stands for all runs below it.

  unilab plot runs/HalfCheetah-v5/sac --out curves.png
  unilab plot latest runs/HalfCheetah-v5/td3/long --band std --out curves.svg
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotOptions:
    """What to draw, and where to."""

    runs: tuple[str, ...]
    out: Path = Path("curves.png")
    source: Literal["auto", "evaluation", "training"] = "auto"
    band: Literal["range", "std", "interval"] = "range"
    title: str | None = None
    log_dir: Path = Path("runs")


def parse(argv: Sequence[str]) -> PlotOptions:
    """Arguments to options.

    Raises:
        ConfigError: an unknown name or a bad value; one sentence.
        SystemExit: ``--help``, after printing.
    """
    parser = Parser("unilab plot", _DESCRIPTION)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run directory, a folder of them, or latest")
    parser.add_argument("--out", type=Path, metavar="FILE.png|FILE.svg", help="default: curves.png")
    parser.add_argument(
        "--source",
        choices=SOURCES,
        help="evaluations, or training episodes with their noise (auto: evaluations where all runs have them)",
    )
    parser.add_argument(
        "--band",
        choices=BANDS,
        help="from the lowest to the highest seed (default), +- std, or 95 %% interval of the mean",
    )
    parser.add_argument("--title", metavar="TEXT")
    add_log_dir(parser)
    values = parser.values(argv)
    values["runs"] = tuple(values["runs"])
    if not values["runs"]:
        raise ConfigError("nothing to draw: name run directories, folders of them, or latest")
    options = PlotOptions(**values)
    check_file("--out", options.out, ".png", ".svg")
    return options

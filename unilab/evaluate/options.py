"""The options of ``unilab evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unilab.arguments import Parser, add_run, check_file, check_run, count, seed
from unilab.errors import ConfigError

VIDEO_OF_RUN = Path("videos")
"""Stands for a video in the run's own directory."""

_DESCRIPTION = """Play episodes with the policy of a run, as the run's own evaluation does: the same seeds give the same
returns, bit for bit.

  unilab evaluate --run latest                               the newest checkpoint, as many episodes as the run's own
  unilab evaluate --run latest --checkpoint best --episodes 100 --json
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """What to evaluate, and what to say."""

    run: str | None = None
    checkpoint: str = "last"
    log_dir: Path = Path("runs")
    episodes: int | None = None
    seed: int | None = None
    stochastic: bool = False
    video: Path | None = None
    json: bool = False


def parse(argv: Sequence[str]) -> EvaluateOptions:
    """Arguments to options.

    Raises:
        ConfigError: an unknown name or a bad value; one sentence.
        SystemExit: ``--help``, after printing.
    """
    values = _parser().values(argv)
    if "run" not in values and "checkpoint" not in values:
        raise ConfigError("nothing to evaluate: give --run RUN (latest is the newest), or the path of a --checkpoint")
    options = EvaluateOptions(**values)
    check_run(options.run, options.checkpoint)
    if options.video is not None and options.video != VIDEO_OF_RUN:
        check_file("--video", options.video, ".mp4")
    return options


def _parser() -> Parser:
    parser = Parser("unilab evaluate", _DESCRIPTION)
    add_run(parser)
    parser.add_argument("--episodes", type=count, metavar="N", help="default: as in the run's own evaluation, or 10")
    parser.add_argument("--seed", type=seed, help="of envs and noise (default: the run's)")
    parser.add_argument("--stochastic", action="store_true", help="act with the run's exploration noise")
    parser.add_argument(
        "--video",
        nargs="?",
        const=VIDEO_OF_RUN,
        type=Path,
        metavar="FILE.mp4",
        help="of the first episode (default: in the run's videos/)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, every return in it")
    return parser

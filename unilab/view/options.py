"""The options of ``unilab view``, read and checked against one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from unilab.arguments import Parser, add_run, check_file, check_run, count, fraction, number, read, seed
from unilab.config import parse_keywords
from unilab.errors import ConfigError
from unilab.view.size import Size, check_even, parse_size

_SINGLE, _MANY = Size(640, 480), Size(1280, 960)

_DESCRIPTION = """Show what a policy, or chance, does in an env: an MP4, a PNG or both, without a display.

  unilab view --run latest --video out.mp4           the newest run's policy, without its exploration
  unilab view --env Ant-v5 --random --image ant.png  random actions
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What to show, and where it goes."""

    run: str | None = None
    checkpoint: str = "last"
    log_dir: Path = Path("runs")
    env: str | None = None
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    backend: str | None = None
    action_bound: float | None = None
    random: bool = False
    stochastic: bool = False
    envs: int = 1
    seed: int | None = None
    steps: int | None = None
    seconds: Fraction | None = None
    video: Path | None = None
    image: Path | None = None
    size: Size = _SINGLE
    fps: Fraction | None = None
    camera: str | None = None

    @property
    def from_run(self) -> bool:
        """Whether a checkpoint says which env it is."""
        return self.env is None


def parse(argv: Sequence[str]) -> ViewOptions:
    """Arguments to options.

    Raises:
        ConfigError: an unknown name, a bad value, or options that contradict each other; one sentence.
        SystemExit: ``--help``, after printing.
    """
    values = _parser().values(argv)
    if "env_kwargs" in values:
        values["env_kwargs"] = read(parse_keywords, values["env_kwargs"], "--env-kwargs")
    if "size" not in values and values.get("envs", 1) > 1:
        values["size"] = _MANY
    options = ViewOptions(**values)
    _check_subject(options, checkpoint_given="checkpoint" in values)
    _check_output(options)
    return options


def _parser() -> Parser:
    parser = Parser("unilab view", _DESCRIPTION)
    show = parser.add_argument_group("what is shown")
    add_run(show)
    show.add_argument("--stochastic", action="store_true", help="act with the run's exploration noise")
    show.add_argument("--env", metavar="ID", help="an env without a run: as for training; needs --random")
    show.add_argument("--random", action="store_true", help="uniform random actions, also in the env of a run")
    show.add_argument("--env-kwargs", nargs="+", metavar="KEY=VALUE", help="laid over the run's")
    show.add_argument("--backend", metavar="NAME", help="instead of the run's: auto, mujoco or gymnasium")
    show.add_argument("--action-bound", type=number, metavar="B", help="for random actions that have no bounds")
    show.add_argument("--envs", type=count, metavar="N", help="robots, in a grid (default: 1)")
    show.add_argument("--seed", type=seed, help="of envs and noise (default: the run's, as in its evaluation; else 0)")
    write = parser.add_argument_group("what is written")
    write.add_argument("--video", type=Path, metavar="FILE.mp4")
    write.add_argument("--image", type=Path, metavar="FILE.png", help="of the last state")
    write.add_argument("--steps", type=count, metavar="N", help="env steps (default: 20 for an image)")
    write.add_argument("--seconds", type=fraction, metavar="S", help="of the robot's time (default: 10 for a video)")
    write.add_argument(
        "--size", type=parse_size, metavar="WxH", help=f"of the whole (default: {_SINGLE}, grid {_MANY})"
    )
    write.add_argument(
        "--fps", type=fraction, help="frames per second, always in real time (default: one per env step)"
    )
    write.add_argument("--camera", metavar="NAME", help="of the MuJoCo model (default: the task's own view)")
    return parser


def _check_subject(options: ViewOptions, *, checkpoint_given: bool) -> None:
    from_checkpoint = options.run is not None or checkpoint_given
    if options.env is not None and from_checkpoint:
        raise ConfigError(f"--env {options.env} has no place beside --run or --checkpoint: the run's own env is shown")
    if options.env is None and not from_checkpoint:
        raise ConfigError("nothing to show: give --run RUN (latest is the newest), or --env ID --random")
    if options.env is None:
        check_run(options.run, options.checkpoint)
    if options.env is not None and not options.random:
        raise ConfigError(f"--env {options.env} needs --random: a policy comes from a run (--run)")
    if options.random and options.stochastic:
        raise ConfigError("--stochastic would have no effect beside --random: no policy acts")
    if options.action_bound is not None and options.env is None:
        raise ConfigError("--action-bound has no place beside --run: the run's own is used")


def _check_output(options: ViewOptions) -> None:
    if options.video is None and options.image is None:
        raise ConfigError("nothing to write: give --video FILE.mp4, --image FILE.png or both")
    for flag, path, suffix in (("--video", options.video, ".mp4"), ("--image", options.image, ".png")):
        if path is not None:
            check_file(flag, path, suffix)
    if options.steps is not None and options.seconds is not None:
        raise ConfigError("--steps and --seconds say the same thing; give one of them")
    if options.video is not None:
        check_even(options.size)
    elif options.fps is not None:
        raise ConfigError("--fps would have no effect without --video")

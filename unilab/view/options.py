"""The options of ``unilab view``, read and checked against one another."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from unilab.config import TrainConfig, parse_count, parse_keywords
from unilab.errors import ConfigError, nearest
from unilab.view.size import Size, check_even, parse_size

T = TypeVar("T")

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
    parser = _parser()
    known = [flag for action in parser._actions for flag in action.option_strings]
    given, unknown = parser.parse_known_args([_dashes(word) for word in argv])
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]}{nearest(unknown[0].partition('=')[0], known)}")
    values = {name: value for name, value in vars(given).items() if value is not None}
    if "env_kwargs" in values:
        values["env_kwargs"] = _read(parse_keywords, values["env_kwargs"], "--env-kwargs")
    if "size" not in values and values.get("envs", 1) > 1:
        values["size"] = _MANY
    options = ViewOptions(**values)
    _check_subject(options, checkpoint_given="checkpoint" in values)
    _check_output(options)
    return options


class _Parser(argparse.ArgumentParser):
    """One that raises instead of printing and leaving."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("unilab view", description=_DESCRIPTION, allow_abbrev=False, argument_default=None)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    show = parser.add_argument_group("what is shown")
    show.add_argument("--run", metavar="RUN", help="a run directory, or latest")
    show.add_argument("--checkpoint", metavar="WHICH", help="last (default), env steps, or (without --run) a path")
    show.add_argument(
        "--log-dir", type=Path, default=TrainConfig().log_dir, metavar="DIR", help="where latest is (default: runs)"
    )
    show.add_argument("--stochastic", action="store_true", help="act with the run's exploration noise")
    show.add_argument("--env", metavar="ID", help="an env without a run: as for training; needs --random")
    show.add_argument("--random", action="store_true", help="uniform random actions, also in the env of a run")
    show.add_argument("--env-kwargs", nargs="+", metavar="KEY=VALUE", help="laid over the run's")
    show.add_argument("--backend", metavar="NAME", help="instead of the run's: auto, mujoco or gymnasium")
    show.add_argument("--action-bound", type=_number, metavar="B", help="for random actions that have no bounds")
    show.add_argument("--envs", type=_count, metavar="N", help="robots, in a grid (default: 1)")
    show.add_argument("--seed", type=_seed, help="of envs and noise (default: the run's, as in its evaluation; else 0)")
    write = parser.add_argument_group("what is written")
    write.add_argument("--video", type=Path, metavar="FILE.mp4")
    write.add_argument("--image", type=Path, metavar="FILE.png", help="of the last state")
    write.add_argument("--steps", type=_count, metavar="N", help="env steps (default: 20 for an image)")
    write.add_argument("--seconds", type=_fraction, metavar="S", help="of the robot's time (default: 10 for a video)")
    write.add_argument(
        "--size", type=parse_size, metavar="WxH", help=f"of the whole (default: {_SINGLE}, grid {_MANY})"
    )
    write.add_argument(
        "--fps", type=_fraction, help="frames per second, always in real time (default: one per env step)"
    )
    write.add_argument("--camera", metavar="NAME", help="of the MuJoCo model (default: the task's own view)")
    return parser


def _check_subject(options: ViewOptions, *, checkpoint_given: bool) -> None:
    from_checkpoint = options.run is not None or checkpoint_given
    if options.env is not None and from_checkpoint:
        raise ConfigError(f"--env {options.env} has no place beside --run or --checkpoint: the run's own env is shown")
    if options.env is None and not from_checkpoint:
        raise ConfigError("nothing to show: give --run RUN (latest is the newest), or --env ID --random")
    if options.run is None and options.checkpoint == "last" and options.env is None:
        raise ConfigError("--checkpoint last of which run? give --run RUN, or the path of a checkpoint")
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
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            raise ConfigError(f"{flag} {path} must end in {suffix}")
        if path.is_dir():
            raise ConfigError(f"{flag} {path} is a directory; name a file in it")
        if not path.parent.is_dir():
            raise ConfigError(f"{flag} {path}: there is no directory {path.parent}")
    if options.steps is not None and options.seconds is not None:
        raise ConfigError("--steps and --seconds say the same thing; give one of them")
    if options.video is not None:
        check_even(options.size)
    elif options.fps is not None:
        raise ConfigError("--fps would have no effect without --video")


def _dashes(word: str) -> str:
    """``--env_kwargs=a_b`` to ``--env-kwargs=a_b``."""
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value


def _number(text: str) -> float:
    return float(_fraction(text))


def _fraction(text: str) -> Fraction:
    """A positive number, exactly as written."""
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if not 0 < number < 10**6:
        raise argparse.ArgumentTypeError(f"{text} must be a positive number")
    return number


def _count(text: str) -> int:
    number = _read(parse_count, text, "value")
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return number


def _seed(text: str) -> int:
    number = _read(parse_count, text, "value")
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} must not be negative")
    return number


def _read(parse: Callable[[Any], T], value: Any, what: str) -> T:
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from error

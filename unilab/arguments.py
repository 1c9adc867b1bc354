"""How the programs beside training read their options: one sentence for a mistake, dashes or underscores, 1e6 or 1M."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from unilab.config import TrainConfig, parse_count
from unilab.errors import ConfigError, nearest

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """One that raises instead of printing and leaving.

    Args:
        program: as it is typed.
        description: for ``--help``, printed as it is.
    """

    def __init__(self, program: str, description: str) -> None:
        super().__init__(
            program,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def values(self, argv: Sequence[str]) -> dict[str, Any]:
        """What was given, by name; options that were left out are not in it.

        Raises:
            ConfigError: an unknown option or a bad value; one sentence.
            SystemExit: ``--help``, after printing.
        """
        known = [flag for action in self._actions for flag in action.option_strings]
        given, unknown = self.parse_known_args([_dashes(word) for word in argv])
        if unknown:
            raise ConfigError(f"unknown option {unknown[0]}{nearest(unknown[0].partition('=')[0], known)}")
        return {name: value for name, value in vars(given).items() if value is not None}

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        raise ConfigError(message)


def add_run(group: Any) -> None:
    """``--run``, ``--checkpoint`` and ``--log-dir``, as ``which_checkpoint`` takes them."""
    group.add_argument("--run", metavar="RUN", help="a run directory, or latest")
    group.add_argument(
        "--checkpoint", metavar="WHICH", help="last (default), best, env steps, or (without --run) a path"
    )
    add_log_dir(group)


def add_log_dir(group: Any) -> None:
    """``--log-dir``."""
    group.add_argument(
        "--log-dir", type=Path, default=TrainConfig().log_dir, metavar="DIR", help="where latest is (default: runs)"
    )


def check_run(run: str | None, checkpoint: str) -> None:
    """Refuse options that name no checkpoint.

    Raises:
        ConfigError: says what to give.
    """
    if run is None and checkpoint in ("last", "best"):
        raise ConfigError(f"--checkpoint {checkpoint} of which run? give --run RUN, or the path of a checkpoint")


def check_file(flag: str, path: Path, *suffixes: str) -> None:
    """Refuse a file that cannot be written, or not in this format.

    Raises:
        ConfigError: names the flag, the path and the fix.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigError(f"{flag} {path} must end in {' or '.join(suffixes)}")
    if path.is_dir():
        raise ConfigError(f"{flag} {path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no directory {path.parent}")


def number(text: str) -> float:
    """A positive number."""
    return float(fraction(text))


def fraction(text: str) -> Fraction:
    """A positive number, exactly as written."""
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if not 0 < number < 10**6:
        raise argparse.ArgumentTypeError(f"{text} must be a positive number")
    return number


def count(text: str) -> int:
    """A whole number from 1 on."""
    number = read(parse_count, text, "value")
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return number


def seed(text: str) -> int:
    """A whole number from 0 on."""
    number = read(parse_count, text, "value")
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} must not be negative")
    return number


def read(parse: Callable[[Any], T], value: Any, what: str) -> T:
    """A value by a parser that raises ``ValueError``.

    Raises:
        ConfigError: names what could not be read.
    """
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from error


def _dashes(word: str) -> str:
    """``--env_kwargs=a_b`` to ``--env-kwargs=a_b``."""
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value

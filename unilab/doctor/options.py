"""The doctor's own options, taken out of a command line whose others describe the run."""

from __future__ import annotations

from collections.abc import Sequence

from unilab.doctor.examine import DoctorOptions
from unilab.errors import ConfigError

USAGE = """usage: unilab doctor [--json] [--deadline SECONDS] [the options of unilab train]

Looks at the machine, the env and the config of a run, then runs one full cycle of it in a temporary directory.
One line for each finding: ok, warn or FAIL, what was seen, what to do. Exit code 0, or 2 if something failed.

  --json              print one JSON object instead
  --deadline SECONDS  for the examination of the env in its own process (default: 60)
"""


def take_options(argv: Sequence[str]) -> tuple[DoctorOptions, list[str]]:
    """The doctor's options, and the words that are left.

    Raises:
        ConfigError: the deadline is not a positive number.
    """
    words: list[str] = []
    as_json, deadline = False, "60"
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--json":
            as_json = True
        elif word.startswith("--deadline="):
            deadline = word.partition("=")[2]
        elif word == "--deadline":
            deadline = rest.pop(0) if rest else ""
        else:
            words.append(word)
    return DoctorOptions(json=as_json, deadline_s=_seconds(deadline)), words


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"--deadline {text} must be a positive number of seconds")
    return seconds

"""The options of ``unilab export``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unilab.arguments import Parser, add_run, check_run
from unilab.errors import ConfigError

_DESCRIPTION = """Put the policy of a run into a bundle: policy.onnx (raw observations in, actions in the env's
units out), metadata.json and run_policy.py, an example that needs neither unilab nor torch.

  unilab export --run latest --checkpoint best --out walker       a folder
  unilab export --run latest --out walker.zip                     the same in one file
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to export, and where to."""

    run: str | None = None
    checkpoint: str = "last"
    log_dir: Path = Path("runs")
    out: Path


def parse(argv: Sequence[str]) -> ExportOptions:
    """Arguments to options.

    Raises:
        ConfigError: an unknown name or a bad value; one sentence.
        SystemExit: ``--help``, after printing.
    """
    parser = Parser("unilab export", _DESCRIPTION)
    add_run(parser)
    parser.add_argument("--out", type=Path, metavar="FOLDER|FILE.zip", help="an older bundle there is replaced")
    values = parser.values(argv)
    if "run" not in values and "checkpoint" not in values:
        raise ConfigError("nothing to export: give --run RUN (latest is the newest), or the path of a --checkpoint")
    if "out" not in values:
        raise ConfigError("nowhere to write: give --out FOLDER or --out FILE.zip")
    options = ExportOptions(**values)
    check_run(options.run, options.checkpoint)
    return options

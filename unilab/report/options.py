"""The options of ``unilab trace-report``, and what it prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from unilab.errors import ConfigError, UnilabError
from unilab.report.measure import TraceReport, measure
from unilab.report.text import compare_lines, report_lines
from unilab.telemetry.timing import advice
from unilab.telemetry.trace_file import NAME
from unilab.telemetry.trace_read import read_trace


class _Parser(argparse.ArgumentParser):
    """One that raises instead of printing and leaving."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def trace_report(argv: Sequence[str] | None = None) -> int:
    """Print what the traces that the arguments name say; returns the exit code."""
    try:
        sys.stdout.write(report_text(list(sys.argv[1:] if argv is None else argv)))
    except UnilabError as error:
        sys.stderr.write(f"unilab: {error}\n")
        return error.exit_code
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def report_text(argv: Sequence[str]) -> str:
    """What to print.

    Raises:
        UnilabError: an argument is wrong, or there is no trace.
    """
    parser = _Parser("unilab trace-report", description="Where a traced run's time went.", allow_abbrev=False)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run directory, a trace file, or latest")
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two of them side by side")
    parser.add_argument("--json", action="store_true", help="numbers for machines instead")
    parser.add_argument("--log-dir", type=Path, default=Path("runs"), help="where latest is (default: runs)")
    given = parser.parse_args(argv)
    if bool(given.runs) == bool(given.compare):
        raise ConfigError("give runs (latest is the newest), or --compare A B")
    names = given.runs or given.compare
    reports = {name: measure(read_trace(trace_path(name, given.log_dir))) for name in names}
    if given.json:
        content = {name: _plain(report) for name, report in reports.items()}
        return json.dumps(content, indent=1) + "\n"
    if given.compare:
        blocks = [[*(f"{x}  {name}" for x, name in zip("AB", names, strict=True)), *compare_lines(*reports.values())]]
    else:
        blocks = [[*([name] if len(names) > 1 else []), *report_lines(report)] for name, report in reports.items()]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def trace_path(name: str, log_dir: Path) -> Path:
    """The trace that a name means.

    Raises:
        ConfigError: there is none.
    """
    path = log_dir / name if name == "latest" else Path(name)
    trace = path / NAME if path.is_dir() else path
    if not trace.is_file():
        raise ConfigError(f"{name} has no {NAME}: a run writes one with --trace")
    return trace


def _plain(report: TraceReport) -> dict[str, object]:
    return asdict(report) | {"advice": advice(report.timing)}

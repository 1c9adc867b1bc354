"""All checks in order: what costs nothing, the env in a child, what needs to know the env, one full cycle."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unilab.checks.conflicts import conflict_findings
from unilab.checks.disk import log_dir_finding
from unilab.checks.finding import fail
from unilab.checks.quick import machine_findings, size_findings
from unilab.checks.shared_memory import shared_memory_finding
from unilab.config import TrainConfig, threads_of
from unilab.doctor.child import Children
from unilab.doctor.dry_run import dry_run_findings
from unilab.doctor.env import env_report
from unilab.doctor.report import Report
from unilab.errors import Stopped, UsageError
from unilab.preflight import memory_needs, pick_device, row_bytes

_DRY_RUN_DEADLINES = 4  # the dry run may take this many deadlines: it starts three processes one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """How to examine, beside what."""

    json: bool = False
    deadline_s: float = 60.0  # of the env's examination


def examine(cfg: TrainConfig, options: DoctorOptions) -> int:
    """Examine a run, print what was found, leave nothing behind.

    Returns:
        0 if nothing failed, 2 if something did, 130/143 when interrupted.
    """
    report = Report(as_json=options.json)
    with Children() as children, _scratch() as scratch:
        try:
            _examine(cfg, options, report, children, scratch)
        except Stopped:
            assert children.interrupt.signal is not None
            sys.stderr.write(f"unilab: doctor stopped by {children.interrupt.signal.name}\n")
            return children.interrupt.exit_code
    report.close()
    return report.exit_code


def _examine(cfg: TrainConfig, options: DoctorOptions, report: Report, children: Children, scratch: Path) -> None:
    try:
        device = pick_device(cfg.device)
    except UsageError as error:
        report.add(fail("device", str(error), "see `nvidia-smi`, or use --device auto"))
        return
    report.add(*machine_findings(cfg, threads_of(cfg), device))
    report.add(log_dir_finding(cfg.log_dir))
    env = env_report(cfg, children, _subdirectory(scratch, "env"), options.deadline_s)
    report.add(*env.findings)
    report.add(*conflict_findings(cfg, env.spec))
    if env.spec is None:
        return
    needs = memory_needs(cfg, env.spec)
    report.add(*size_findings(cfg, env.spec, needs, row_bytes(cfg, env.spec)), shared_memory_finding(needs))
    if not report.failed:
        deadline_s = _DRY_RUN_DEADLINES * options.deadline_s
        report.add(*dry_run_findings(cfg, env, children, _subdirectory(scratch, "runs"), deadline_s))


@contextmanager
def _scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="unilab-doctor-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _subdirectory(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path

"""How a run ended: its summary, and what is said about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unilab.errors import UnilabError
from unilab.rundir import RunSummary, write_summary
from unilab.telemetry.console import Console
from unilab.telemetry.trace_file import was_cut
from unilab.tracing import RunTrace


class Ending:
    """Fills and writes the summary of a run.

    Args:
        run_dir: of the run.
        console: of the run.
    """

    def __init__(self, run_dir: Path, console: Console) -> None:
        self.summary = RunSummary(status="failed", reason="did not start", exit_code=1)
        self._run_dir = run_dir
        self._console = console

    def outcome(self, status: str, reason: str, code: int) -> None:
        """Say how it ended."""
        self.summary.status, self.summary.reason, self.summary.exit_code = status, reason, code

    def failed(self, error: BaseException) -> None:
        """It ended with an error."""
        said = (str(error) or type(error).__name__).splitlines()[0]
        self.outcome("failed", said, error.exit_code if isinstance(error, UnilabError) else 1)

    def lose(self, what: str) -> None:
        """Something that was asked for is not on disk: exit code 0 would be a lie."""
        summary = self.summary
        if summary.status != "failed":
            summary.reason, summary.exit_code = f"{summary.reason}; {what}", 1
        self._console.error(what)

    def trace(self, trace: RunTrace, limit_mb: int) -> None:
        """Close the trace file and name it.

        Args:
            trace: of the run.
            limit_mb: size limit that it was given.
        """
        path, lost = trace.end()
        self.summary.trace = str(path) if path else None
        if lost:
            self.lose(lost)
        elif path and was_cut(path):
            self._console.note(f"the trace is cut: it reached --trace-mb {limit_mb}")

    def write(self) -> None:
        """Write ``summary.json``."""
        try:
            write_summary(self._run_dir, self.summary)
        except OSError as error:
            self.lose(f"summary.json could not be written: {error.strerror or error}")

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Turn an error into a line on the console: it must not hide why the run ended."""
        try:
            yield
        except Exception as error:
            self._console.note(f"{what}: {type(error).__name__}: {error}")

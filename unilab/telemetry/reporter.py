"""Sends a set of scalars to the console, TensorBoard and csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from unilab.telemetry.console import Console
from unilab.telemetry.lags import Histogram


class Writer(Protocol):
    """A file of scalars over env steps."""

    def write(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Add one step's scalars."""

    def close(self) -> None:
        """Flush and close; idempotent."""


class HistogramWriter(Protocol):
    """A file that takes histograms too."""

    def write_histograms(self, env_steps: int, histograms: Mapping[str, Histogram]) -> None:
        """Add one step's histograms."""


class Reporter:
    """All places that scalars go to, as one."""

    def __init__(
        self,
        console: Console,
        writers: Sequence[Writer],
        *,
        evaluations: Sequence[Writer] = (),
        histograms: Sequence[HistogramWriter] = (),
        total_steps: int = 0,
    ) -> None:
        """Take over the writers.

        Args:
            console: gets one line per write that asks for it; open to others for notes.
            writers: get all scalars; closed by ``close``.
            evaluations: those among them that also get evaluations.
            histograms: those among them that also get histograms.
            total_steps: env steps of the whole run, shown as a percentage; 0: unknown.
        """
        self.console = console
        self._writers = writers
        self._evaluations = evaluations
        self._histograms = histograms
        self._total_steps = total_steps

    def write(self, env_steps: int, scalars: Mapping[str, float], *, to_console: bool, to_files: bool = True) -> None:
        """Send one step's scalars, the console first: the files may take a moment to open.

        Raises:
            OSError: a file cannot be written.
        """
        if to_console:
            self.console.status(env_steps, self._total_steps, scalars)
        for writer in self._writers if to_files else ():
            writer.write(env_steps, scalars)

    def write_histograms(self, env_steps: int, histograms: Mapping[str, Histogram]) -> None:
        """Send one step's histograms to the files that take them.

        Raises:
            OSError: the file cannot be written.
        """
        for writer in self._histograms if histograms else ():
            writer.write_histograms(env_steps, histograms)

    def write_evaluation(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Send an evaluation's scalars, which may be of a step before the last: to the console and TensorBoard.

        Raises:
            OSError: the file cannot be written.
        """
        self.console.evaluation(env_steps, scalars)
        for writer in self._evaluations:
            writer.write(env_steps, scalars)

    def close(self) -> None:
        """Close every writer, also after one has failed to; idempotent."""
        with ExitStack() as stack:
            for writer in self._writers:
                stack.callback(writer.close)

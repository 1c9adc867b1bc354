"""``progress.csv``: one row a write, first column ``env_steps``, then one column a scalar."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from unilab.telemetry.linked import check_linked

STEPS = "env_steps"


class CsvWriter:
    """Appends rows, each flushed; for one process.

    A scalar that was never seen adds a column: the file is then written anew beside the old one, with empty
    cells in the rows before, and renamed, so a reader and a crash see either whole file. That happens once a
    name, early in a run. Numbers keep all digits; NaN and infinities are written as ``nan`` and ``inf``.
    """

    def __init__(self, path: Path, *, start_steps: int = 0) -> None:
        """Open or continue the file.

        Args:
            path: the csv file.
            start_steps: env steps of the checkpoint that the run continues from: rows beyond it, and what a
                crash left of a last line, go. 0: an existing file is replaced.

        Raises:
            OSError: the file cannot be written.
        """
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        old_columns, rows = _read(path) if start_steps and path.exists() else ([], [])
        self._columns = [STEPS] + [name for name in old_columns if name != STEPS]
        self._file: TextIO | None = None
        self._rewrite([row for row in rows if row[STEPS].isdigit() and int(row[STEPS]) <= start_steps])

    def write(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Add one row; columns without a value stay empty.

        Raises:
            OSError: the file cannot be written, or was removed; the writer is then closed, without half a row.
            ValueError: the writer is closed.
        """
        if self._file is None:
            raise ValueError(f"{self._path} is closed")
        check_linked(self._file, self._path)
        new = [name for name in scalars if name not in self._columns]
        if new:
            self._columns += new
            self._rewrite(_read(self._path)[1])
        row = {name: repr(float(value)) for name, value in scalars.items()} | {STEPS: str(env_steps)}
        size = os.fstat(self._file.fileno()).st_size
        try:
            self._file.write(_line([row.get(name, "") for name in self._columns]))
            self._file.flush()
        except OSError:
            # What the disk took of the row goes; closing first, because what is still buffered would follow.
            with contextlib.suppress(OSError):
                self.close()
            with contextlib.suppress(OSError):
                os.truncate(self._path, size)
            raise

    def close(self) -> None:
        """Close; idempotent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        self.close()
        aside = self._path.with_name(self._path.name + ".tmp")
        try:
            with open(aside, "w", encoding="utf-8", newline="") as out:
                out.write(_line(self._columns))
                out.writelines(_line([row.get(name, "") for name in self._columns]) for row in rows)
            os.replace(aside, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise
        self._file = open(self._path, "a", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and whole rows, as text; a last line without its newline was cut and is left out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))
    columns = next(lines, [])
    return columns, [{STEPS: ""} | dict(zip(columns, cells, strict=False)) for cells in lines]


def _line(cells: list[str]) -> str:
    """One line in one piece: a reader never meets a half row that a later write completes."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()

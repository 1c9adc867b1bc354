"""``eval.jsonl``: one JSON object a line for each evaluation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unilab.telemetry.linked import check_linked


class EvalLog:
    """Appends lines, each flushed; for one process.

    Args:
        path: the file.
        start_steps: env steps of the checkpoint that the run continues from: lines beyond it, and what a crash left of
            a last line, go. 0: an existing file is replaced.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, *, start_steps: int = 0) -> None:
        kept = (
            [record for record in read_evaluations(path) if record["env_steps"] <= start_steps] if start_steps else []
        )
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        aside.write_text("".join(map(_line, kept)))
        os.replace(aside, path)
        self._path = path
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def write(self, env_steps: int, record: Mapping[str, Any]) -> None:
        """Add one line: ``env_steps`` and what else there is, JSON values.

        Raises:
            OSError: the file cannot be written, or was removed.
        """
        check_linked(self._file, self._path)
        self._file.write(_line({"env_steps": env_steps, **record}))
        self._file.flush()

    def close(self) -> None:
        """Close; idempotent."""
        self._file.close()


def read_evaluations(path: Path) -> list[dict[str, Any]]:
    """The records of a file, in order; none where there is no file. A last line without its end was cut."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"

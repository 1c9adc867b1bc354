"""Real runs of the program: started as a user would, watched from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ENVS = Path(__file__).resolve().parent / "sample_envs"
SMALL = ["--hidden", "16", "16", "--batch-size", "16", "--threads", "1", "--buffer-size", "5000"]
"""Flags that make updates cheap: these tests are about processes, not about learning."""


class Program:
    """One run of ``scripts/train.py``.

    Args:
        log_dir: of the run, and the folder that it starts in; what it prints is in ``console.txt`` there.
        words: options.
        shell: bash text that runs the program as ``"$@"``, with ``exec`` so that its process is the watched one.
    """

    def __init__(self, log_dir: Path, words: Sequence[str], shell: str = 'exec "$@"') -> None:
        self.log_dir = log_dir
        self.output = log_dir / "console.txt"
        environment = os.environ | {"PYTHONPATH": str(ENVS), "SAMPLE_ENV_OUT": str(log_dir)}
        with open(self.output, "wb") as stream:
            self.process = subprocess.Popen(
                [
                    "bash",
                    "-c",
                    shell,
                    "bash",
                    sys.executable,
                    str(REPOSITORY / "scripts/train.py"),
                    "--log-dir",
                    str(log_dir),
                    *words,
                ],
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=log_dir,
                env=environment,
                start_new_session=True,
            )
        self._seen: dict[int, str] = {}

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def summary(self) -> dict[str, object]:
        return json.loads((self.log_dir / "latest/summary.json").read_text())

    def descendants(self) -> dict[int, str]:
        """Live processes below the program, and all that were ever seen there and still live."""
        parents = {pid: parent for pid, parent, _ in _processes()}
        names = {pid: name for pid, _, name in _processes()}
        family = {self.process.pid}
        while grown := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= grown
        self._seen |= {pid: names[pid] for pid in family - {self.process.pid} if pid in names}
        return {pid: name for pid, name in self._seen.items() if names.get(pid) == name}

    def collectors(self) -> list[int]:
        return [pid for pid, name in self.descendants().items() if "spawn_main" in name]

    def until(self, condition: Callable[[], object], what: str, deadline_s: float = 60.0) -> None:
        """Wait for the outside world; there is nothing to be woken by."""
        end = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end, f"{what} did not happen within {deadline_s} s:\n{self.text}"
            assert self.process.poll() is None or condition(), f"ended before {what}:\n{self.text}"
            time.sleep(0.02)

    def training(self) -> None:
        """Wait until updates are being made."""
        self.until(lambda: self.collectors() and "updates/s=" in self.text, "training")

    def end(self, deadline_s: float = 90.0) -> int:
        self.descendants()
        return self.process.wait(deadline_s)

    def left_over(self, grace_s: float = 8.0) -> list[str]:
        """What still lives of the program after a grace period."""
        end = time.monotonic() + grace_s
        while (alive := self.descendants()) and time.monotonic() < end:
            time.sleep(0.05)
        return list(alive.values())


Start = Callable[..., Program]


def _processes() -> list[tuple[int, int, str]]:
    """(pid, parent, command line) of every process that is not a zombie."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
            name = Path(f"/proc/{entry}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if state != "Z":
            found.append((int(entry), int(parent), name))
    return found

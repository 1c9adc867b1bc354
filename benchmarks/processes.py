"""Programs that are measured from outside: started, held, let go on, ended, with everything that they have started.

A held program gets no core at all (SIGSTOP), and its clock stands still: what is judged meanwhile, or whose turn it is,
costs it nothing. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_END_S = 30.0
_SETTLED = 2  # looks at the tree that find nobody new


class Program:
    """A process and its clock, which starts before the process and stands while it is held.

    Args:
        words: command and arguments.
        console: file for all that it prints.
        env: variables beside those of this process.
    """

    def __init__(self, words: Sequence[str], console: Path, env: Mapping[str, str] | None = None) -> None:
        self.console = console
        self._holds: list[tuple[float, float]] = []  # began, ended; seconds since the epoch
        self._held_since: float | None = None
        with open(console, "w") as out:
            self.began_s = time.time()
            self._process = subprocess.Popen(
                words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs or is held."""
        return self._process.poll()

    def clock(self, at_s: float | None = None) -> float:
        """Seconds that it has had until a moment, by default now.

        Args:
            at_s: seconds since the epoch, as ``time.time`` and files have them.
        """
        at_s = time.time() if at_s is None else at_s
        open_hold = [] if self._held_since is None else [(self._held_since, max(at_s, self._held_since))]
        return running_s(self.began_s, [*self._holds, *open_hold], at_s)

    def hold(self) -> None:
        """Stop the process and everything below it."""
        if self._held_since is None:
            self._held_since = time.time()
        if self.exit_code is None:
            _signal_all(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let all of them run."""
        if self._held_since is not None:
            if self.exit_code is None:
                _signal_all(self._process.pid, signal.SIGCONT)
            self._holds.append((self._held_since, time.time()))
            self._held_since = None

    def end(self) -> None:
        """Ask it to end, then make it, with all below it that is left; idempotent."""
        self.go_on()
        below = {pid: _born(pid) for pid in descendants(self._process.pid)} if self.exit_code is None else {}
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        if self._process.poll() is None:
            _signal_all(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pid, born in below.items():
            if born is not None and _born(pid) == born:  # and no stranger who has got its number
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def last_words(self, lines: int = 15) -> str:
        """The end of what it printed."""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])


def end_in_order() -> None:
    """Let SIGTERM unwind this process as Ctrl-C does: programs that it holds would be left standing."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def running_s(began_s: float, holds: Sequence[tuple[float, float]], at_s: float) -> float:
    """Seconds from ``began_s`` to ``at_s`` without those inside of ``holds`` (began, ended)."""
    held = sum(max(0.0, min(ended, at_s) - begun) for begun, ended in holds)
    return at_s - began_s - held


def descendants(pid: int) -> list[int]:
    """Processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, in parentheses, may hold anything; the parent is the second word after it.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def _born(pid: int) -> str | None:
    """When a process began, as the kernel counts; None where there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None


def _signal_all(pid: int, number: int) -> None:
    """Signal a process, then those below it, until a look finds nobody new: it may have been starting one."""
    seen: set[int] = set()
    quiet = 0
    while quiet < _SETTLED:
        new = [one for one in (pid, *descendants(pid)) if one not in seen]
        for one in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)
        seen.update(new)
        quiet = 0 if new else quiet + 1

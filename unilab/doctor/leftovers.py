"""Processes that an env has started and not ended with its close."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unilab.checks.finding import Finding, ok, warn
from unilab.workers.child import MARKER, family

_GRACE_S = 1.0


def leftover_finding() -> Finding:
    """Look, in a worker whose envs are closed, for what still lives of them."""
    end_s = time.monotonic() + _GRACE_S
    while (alive := _alive()) and time.monotonic() < end_s:
        time.sleep(0.02)  # nobody rings when a stranger's process ends
    if not alive:
        return ok("processes", "none is left after close")
    named = ", ".join(f"{name} (pid {pid})" for pid, name in list(alive.items())[:3])
    return warn(
        "processes",
        f"{len(alive)} still live after close: {named}",
        "end them in close(); a run kills them with its collector",
    )


def _alive() -> dict[int, str]:
    if not os.path.isdir("/proc/self"):
        return {}
    found = {}
    for pid in family(os.getpid(), os.environ.get(MARKER, "none")):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
        if state != "Z":
            found[pid] = words[:60]
    return found

"""What the machine has: cores for threads, memory for rings. Looked at before anything is taken."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unilab.errors import ConfigError, ResourceError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ThreadBudget:
    """Threads of numpy and torch per role."""

    learner: int
    collector: int


def thread_budget(threads: int | str, *, update_gflop: float) -> ThreadBudget:
    """Split a run's threads between learner and collector; serial mode takes the same split, for the same bits.

    The collector has one thread. The learner has the rest, at most one per 0.15 GFLOP of an update: barriers cost more
    than further threads give. It never shares the collector's core: a learner with as many threads as there are
    cores fell from 108 to 39 updates/s here (2 cores, 2x256, batch 256) as soon as anything else ran, since each
    barrier then waits for a preempted thread; on an idle machine it gained 1.2x. This is a rule over the config and
    never a measurement: thread counts change the last bits of sums.

    Args:
        threads: all threads of the run, or "auto" for one per usable core.
        update_gflop: rough work of one update, in 1e9 floating-point operations.

    Raises:
        ConfigError: not a positive count.
    """
    total = usable_cores() if threads == "auto" else int(threads)
    if total < 1:
        raise ConfigError(f"threads={threads} is not a positive count")
    useful = max(1, math.ceil(update_gflop / 0.15))
    return ThreadBudget(learner=max(1, min(total - 1, useful)), collector=1)


def usable_cores() -> int:
    """Cores that this process may use: affinity mask and the container's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next allocation instead of giving it back to the kernel.

    An update frees and takes the same temporaries again and again, several of them above the threshold where each
    costs an mmap and its page faults: 700 faults and a fifth of the time of a 2x256 update here. Nothing on other C
    libraries.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)


def available_bytes() -> int:
    """Memory that can still be taken: of the machine, or of the container where that is less."""
    return int(max(0, min(_meminfo_available(), _cgroup_available())))


def check_memory(needs: Mapping[str, int], *, row_bytes: int, buffer_size: int) -> None:
    """Refuse what does not fit before any of it is taken.

    Args:
        needs: bytes by what takes them, the ring included.
        row_bytes: bytes of one row of the ring.
        buffer_size: rows of the ring.

    Raises:
        ResourceError: names the bytes, their factors and the largest buffer that fits.
    """
    needed, free = sum(needs.values()), available_bytes()
    if needed <= free:
        return
    fits = max(0, (free - (needed - row_bytes * buffer_size)) // row_bytes)
    parts = ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in needs.items())
    raise ResourceError(
        f"this run needs {format_bytes(needed)} of memory ({parts}; the ring is buffer_size={buffer_size:,} rows of "
        f"{format_bytes(row_bytes)}) and {format_bytes(free)} are free; the largest buffer_size that fits is {fits:,}"
    )


def format_bytes(nbytes: float) -> str:
    """Bytes in the largest binary unit that keeps at least one digit before the point."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} TiB"


def _meminfo_available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_available() -> float:
    """Bytes left in the container; infinity without a limit."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())  # "max" without a limit
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return math.inf
    # Files read before still count as used, but the kernel drops them for whoever needs the memory.
    return limit - used + _cgroup_stat("inactive_file")


def _cgroup_stat(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in (_CGROUP / "memory.stat").read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0

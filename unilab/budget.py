"""What the machine has: cores for threads, memory for rings. Looked at before anything is taken."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from unilab.errors import ConfigError, ResourceError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class ThreadBudget:
    """Threads of numpy and torch per role."""

    learner: int
    collector: int  # each


SHARES_FROM = 0.2
"""GFLOP of updates for each env step from which on a learner takes the collectors' cores too."""


def thread_budget(
    threads: int | str, *, update_gflop: float, updates_per_step: float = 0.0, collectors: int = 1
) -> ThreadBudget:
    """Split a run's threads between learner and collectors; serial mode takes the same split, for the same bits.

    A collector has one thread. The learner has at most one per 0.15 GFLOP of an update: barriers cost more than further
    threads give. Of a number that is given it has the rest. With "auto" it has the other cores, and those of the
    collectors too where it makes ``SHARES_FROM`` GFLOP for each env step: a collector then sleeps most of the time,
    with the default command 95 % of it.

    What that brings, on 2 cores with the default command (2x256, batch 256, compiled; env steps/s): 338 instead of 250
    alone; beside one other busy process 138 instead of 256, as every barrier then waits for a thread that was pushed
    aside. With libgomp's own way to wait, spinning for long, it would be 368 and 10, so ``unilab/__init__.py`` asks for
    short spins. 64 envs, 2x512, batch 8,192: 294 instead of 164.

    This is a rule over the config and never a measurement: thread counts change the last bits of sums.

    Args:
        threads: all threads of the run, or "auto".
        update_gflop: rough work of one update, in 1e9 floating-point operations.
        updates_per_step: updates per env step; 0 where the learner's share does not matter.
        collectors: how many there are.

    Raises:
        ConfigError: not a positive count.
    """
    total = usable_cores() if threads == "auto" else int(threads)
    if total < 1:
        raise ConfigError(f"threads={threads} is not a positive count")
    useful = max(1, math.ceil(update_gflop / 0.15))
    shares = threads == "auto" and update_gflop * updates_per_step >= SHARES_FROM
    return ThreadBudget(learner=max(1, min(total if shares else total - collectors, useful)), collector=1)


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores the processes of a run keep to."""

    all: frozenset[int]
    learner: frozenset[int]
    collectors: tuple[frozenset[int], ...]


def spread_cores(collectors: int, learner_threads: int = 1) -> Cores | None:
    """A core for each collector, from the last one down, the others for the learner.

    Where there are not more cores than collectors, the learner has the first and they share the others. A learner with
    more threads than that leaves it may use all cores: threads that share one wait for one another at each barrier.
    None where the system has no affinity, or there is only one core.
    """
    if not hasattr(os, "sched_getaffinity") or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        return None
    theirs = cores[::-1][: min(collectors, len(cores) - 1)]
    others = frozenset(cores) - frozenset(theirs)
    return Cores(
        all=frozenset(cores),
        learner=others if learner_threads <= len(others) else frozenset(cores),
        collectors=tuple(frozenset({theirs[i % len(theirs)]}) for i in range(collectors)),
    )


@contextlib.contextmanager
def keeping_to(cores: frozenset[int] | None) -> Iterator[None]:
    """Keep this thread, and those it starts, to some cores while the block runs."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def usable_cores() -> int:
    """Cores that this process may use: affinity mask and the container's CPU quotas."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(max(1, min(cores, _cgroup_cores())))


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
    """Bytes left in the fullest of the groups around this process; infinity without a limit."""
    v2 = (_bytes_left(group, "memory.max", "memory.current", "inactive_file") for group in _groups(""))
    v1 = (
        _bytes_left(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        for group in _groups("memory")
    )
    return min(*v2, *v1)


def _bytes_left(group: Path, limit: str, used: str, page_cache: str) -> float:
    try:
        # Without a limit v2 says "max"; v1 says about 2**63, which no machine has.
        left = int((group / limit).read_text()) - int((group / used).read_text())
    except (OSError, ValueError):
        return math.inf
    # Files read before still count as used, but the kernel drops them for whoever needs the memory. All of "cache"
    # would be too much: it holds shared memory, and with it the rings of other runs.
    return left + _stat(group / "memory.stat", page_cache)


def _stat(file: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _cgroup_cores() -> float:
    """Whole cores in the smallest quota of the groups around this process; infinity without a quota."""
    v2 = (_quota_cores(group / "cpu.max") for group in _groups(""))
    v1 = (_quota_cores(group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us") for group in _groups("cpu"))
    return min(*v2, *v1)


def _quota_cores(*files: Path) -> float:
    try:
        quota, period = (int(word) for file in files for word in file.read_text().split())  # v2: "max" without a quota
    except (OSError, ValueError):
        return math.inf
    return quota // period if quota > 0 and period > 0 else math.inf  # v1: -1 without a quota


def _groups(controller: str) -> list[Path]:
    """Directories of the groups around this process, its own first, the mount's root last.

    Args:
        controller: one of cgroup v1, which has a tree per set of controllers; "" for the only tree of v2.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text().splitlines():
            match line.split(":", 2):
                case [_, names, path] if controller in names.split(","):
                    # Where the line says "cpuacct,cpu" and the mount is "cpu,cpuacct", a link "cpu" leads there.
                    mount = _CGROUP / (names if os.path.isdir(_CGROUP / names) else controller)
                    return _up_to(mount, mount / path.lstrip("/"))
    return [_CGROUP / controller]


def _up_to(mount: Path, own: Path) -> list[Path]:
    # A container may be shown the host's path, which its mount lacks, or one outside its namespace, "/../other". What
    # it has of such a path is another group of the same name.
    if ".." in own.parts or not os.path.isdir(own):
        return [mount]
    return [own, *(group for group in own.parents if group.is_relative_to(mount))]

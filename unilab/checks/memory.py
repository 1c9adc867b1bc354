"""Memory of a run against the machine's and the container's."""

from __future__ import annotations

from collections.abc import Mapping

from unilab import budget
from unilab.budget import format_bytes
from unilab.checks.finding import Finding, fail, ok, warn
from unilab.errors import ResourceError

_NEARLY_ALL = 0.9
"""Processes, libraries and envs take their own share beside what is counted."""


def memory_finding(needs: Mapping[str, int], *, row_bytes: int, buffer_size: int) -> Finding:
    """Whether a run's large parts fit, and whether they leave a tenth.

    Args:
        needs: bytes by what takes them, the ring included.
        row_bytes: bytes of one row of the ring.
        buffer_size: rows of the ring.
    """
    try:
        budget.check_memory(needs, row_bytes=row_bytes, buffer_size=buffer_size)
    except ResourceError as error:
        return fail("memory", str(error), "lower --buffer-size")
    needed, free = sum(needs.values()), budget.available_bytes()
    saw = (
        f"needs {format_bytes(needed)} of the {format_bytes(free)} that are free "
        f"(buffer_size={buffer_size:,} rows of {format_bytes(row_bytes)})"
    )
    if needed <= _NEARLY_ALL * free:
        return ok("memory", saw)
    fits = max(0, int(buffer_size - (needed - _NEARLY_ALL * free) / row_bytes))
    return warn("memory", f"{saw}, which is {needed / free:.0%}", f"--buffer-size {fits} leaves a tenth for the rest")

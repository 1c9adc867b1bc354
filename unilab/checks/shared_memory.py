"""Where shared memory lives."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping

from unilab.budget import format_bytes
from unilab.checks.finding import Finding, fail, ok
from unilab.shm.segment import BACKING, Backing


def shared_memory_finding(needs: Mapping[str, int], backing: Backing = BACKING) -> Finding:
    """Anonymous memory needs no room anywhere; the fallback needs it in the directory of temporary files.

    Args:
        needs: bytes by what takes them.
        backing: where the bytes live; the default suits the platform.
    """
    if backing == "memfd":
        return ok("shared memory", "anonymous (memfd): the size of /dev/shm does not matter, nothing can be left there")
    folder = tempfile.gettempdir()
    free, needed = shutil.disk_usage(folder).free, sum(needs.values())
    saw = f"no memfd here, so {format_bytes(needed)} go to {folder}, which has {format_bytes(free)} free"
    if needed > free:
        return fail("shared memory", saw, "point TMPDIR to a larger place, or lower --buffer-size")
    return ok("shared memory", saw)

"""The replay as the learner has it: a ring for each collector."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from unilab.replay.layout import RowLayout
from unilab.replay.ring import open_rings


class Replay:
    """All rings of a run, in one block of shared memory.

    Args:
        capacities: rows of each ring.
        layout: columns of a row.
    """

    def __init__(self, capacities: Sequence[int], layout: RowLayout) -> None:
        self.rings = open_rings(capacities, layout)
        self.layout = layout

    @property
    def cursor(self) -> int:
        """Rows ever appended."""
        return sum(ring.cursor for ring in self.rings)

    @property
    def held(self) -> int:
        """Rows that are there."""
        return sum(ring.cursor - ring.oldest for ring in self.rings)

    @property
    def newest_version(self) -> int:
        """Policy version of the newest row; of the collector whose newest is the oldest."""
        return min(ring.newest_version for ring in self.rings)

    def digest(self) -> str:
        """SHA-256 over cursors, rows and versions; that of the ring where there is one."""
        digests = [ring.digest() for ring in self.rings]
        return digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode()).hexdigest()

    def free(self) -> None:
        """Give up the memory."""
        self.rings[0].free()

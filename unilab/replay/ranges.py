"""The replay as the learner has it: a ring for each collector."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

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

    def version_before(self, numbers: Sequence[int]) -> int:
        """Policy version of the row before this number in each ring; of several the oldest version."""
        rows = zip(self.rings, numbers, strict=True)
        return min(int(ring.versions_of(np.array([number - 1]))[0]) for ring, number in rows)

    def digest(self) -> str:
        """SHA-256 over cursors, rows and versions; that of the ring where there is one."""
        digests = [ring.digest() for ring in self.rings]
        return digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode()).hexdigest()

    def free(self) -> None:
        """Give up the memory."""
        self.rings[0].free()

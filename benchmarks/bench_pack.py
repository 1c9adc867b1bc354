"""What does it cost to draw and gather a batch, next to plain indexing, and does it grow with the buffer?"""

from __future__ import annotations

import sys

import numpy as np
from harness import interleaved, report, summarise

from unilab.replay import Ring, RowLayout, UniformSampler, pack
from unilab.seeding import stream

LAYOUT = RowLayout(obs_dim=17, action_dim=6)  # HalfCheetah: 43 floats


def main() -> int:
    """Batches of 256 and 8192 rows out of rings of 100,000 and 1,000,000."""
    sampler = UniformSampler(stream(0, "sample"))
    results, medians = {}, {}
    for batch in (256, 8192):
        out = np.empty((batch, LAYOUT.width), np.float32)
        cases = {}
        for capacity in (100_000, 1_000_000):
            ring = full_ring(capacity)
            ticks = iter(range(10**9))

            def ours(ring: Ring = ring, ticks: object = ticks, out: np.ndarray = out) -> None:
                pack([ring], sampler, out, tick=next(ticks), domain=[(0, ring.capacity)])

            cases[f"pack {batch} of {capacity:,}"] = ours
        rows, generator = (
            np.random.default_rng(0).normal(size=(1_000_000, LAYOUT.width)).astype(np.float32),
            np.random.default_rng(1),
        )
        cases[f"rows[indices], {batch} of 1,000,000"] = lambda rows=rows, n=batch, g=generator: rows[
            g.integers(0, len(rows), n)
        ]
        for name, seconds in interleaved(cases, calls=max(5, 20_000 // batch)).items():
            results[name], medians[name] = summarise(seconds), float(np.median(seconds)) * 1e6
    return report(
        "pack",
        results,
        {
            "us for 8192 rows of 43 floats, draw included": (medians["pack 8192 of 1,000,000"], 650.0),
        },
    )


def full_ring(capacity: int) -> Ring:
    """A ring whose every cell has been written."""
    ring = Ring(capacity, LAYOUT)
    ring._shared.rows[:] = np.random.default_rng(0).normal(size=(capacity, LAYOUT.width)).astype(np.float32)
    ring._shared.versions[:] = 1
    ring._shared.cursor[0] = capacity
    return ring


if __name__ == "__main__":
    sys.exit(main())

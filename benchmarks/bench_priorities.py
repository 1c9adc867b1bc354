"""What does prioritised replay cost, next to a uniform draw of the same rows, and does it grow with the buffer?

python benchmarks/bench_priorities.py [--large]

--large adds a buffer of ten million rows (2 GB). Ratios are of rounds that were timed one after the other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import count, cycle

import numpy as np
from bench_pack import LAYOUT, full_ring
from harness import interleaved, report, summarise

from unilab.replay import Ring, UniformSampler, pack
from unilab.replay.priorities import Priorities
from unilab.seeding import stream

BATCHES = (256, 8192)


def main() -> int:
    """Batches of 256 and 8192 rows out of buffers of ten thousand to a million rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    sizes = [10_000, 100_000, 1_000_000, *([10_000_000] if parser.parse_args().large else [])]
    results: dict[str, dict[str, float]] = {}
    claims = {}
    for size in sizes:
        ring, priorities = full_ring(size), skewed(size)
        for batch in BATCHES:
            seconds = interleaved(cases(ring, priorities, batch), repeats=25, calls=max(4, 10_000 // batch))
            uniform = seconds.pop("uniform")
            name = f"{batch} of {size:,}"
            results[f"uniform, {name}"] = summarise(uniform)
            for case, values in seconds.items():
                ratio = float(np.median(values / uniform))
                results[f"{case}, {name}"] = summarise(values) | {"of uniform": ratio}
                if case == "by priority" and size == 1_000_000:
                    claims[f"{name}, by priority: times a uniform draw"] = (ratio, 3.0)
        ring.free()
    return report("priorities", results, claims)


def cases(ring: Ring, priorities: Priorities, batch: int) -> dict[str, Callable[[], object]]:
    """What is timed: draw and gather by either sampler; the way back of the errors; the way in of a chunk."""
    sampler, ticks = UniformSampler(stream(0, "sample")), count()
    rng, out = np.random.default_rng(0), np.empty((batch, LAYOUT.width), np.float32)
    errors = rng.standard_exponential((16, batch)).astype(np.float32)
    drawn = cycle([(*priorities.draw(rng.random(batch + 1), 0.4)[:2], errors[i]) for i in range(16)])
    chunk, laps = np.arange(batch), count(1)

    def by_priority() -> None:
        priorities._tree._parts = None  # as after the update that every tick makes
        _, serials, _ = priorities.draw(rng.random(batch + 1), 0.4)
        ring.gather(serials, out)

    def chunk_in() -> None:
        cells = (chunk + batch * next(laps)) % ring.capacity
        serials = priorities._serials[cells]
        priorities.drop(cells)
        priorities.add(cells, serials)

    return {
        "uniform": lambda: pack([ring], sampler, out, tick=next(ticks), domain=[(0, ring.capacity)]),
        "by priority": by_priority,
        "errors back": lambda: priorities.update(*next(drawn)),
        "dropped and added": chunk_in,
    }


def skewed(size: int) -> Priorities:
    """Every row in the domain, after errors as they are met: exponential."""
    made, numbers = Priorities(size, 0.6), np.arange(size)
    made.add(numbers, numbers)
    made.update(numbers, numbers, np.random.default_rng(0).standard_exponential(size))
    return made


if __name__ == "__main__":
    sys.exit(main())

"""Which form of the categorical projection is fast: scattered or dense, as it is or compiled, small and large batches.

python benchmarks/bench_projection.py [threads]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from harness import interleaved, report, summarise

from unilab.algos.categorical import Support, _dense, _positions, _scattered

SUPPORT = Support(-5.0, 5.0, 101)


def projection(form: Callable[..., torch.Tensor], p: torch.Tensor, r: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """One projection by either form."""
    return form(p, _positions(r, d, SUPPORT).expand_as(p))


def cases(rows: int) -> dict[str, Callable[[], object]]:
    """What is timed with a batch of ``rows``; the dense form as it is takes gigabytes at large batches."""
    g = torch.Generator().manual_seed(0)
    p = torch.softmax(torch.randn(rows, SUPPORT.count, generator=g), -1)
    reward, discount = torch.randn(rows, generator=g), 0.99 * (torch.rand(rows, generator=g) > 0.05)
    made: dict[str, Callable[[], object]] = {}
    for form in (_scattered, _dense):
        eager = partial(projection, form)
        compiled = torch.compile(eager, fullgraph=True, dynamic=False)
        made[f"{form.__name__[1:]} compiled, {rows} rows"] = partial(compiled, p, reward, discount)
        if form is _scattered or rows <= 256:
            made[f"{form.__name__[1:]} eager, {rows} rows"] = partial(eager, p, reward, discount)
    return made


def main() -> int:
    """Time all, and say whether the form that the CPU uses is the fast one."""
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    seconds = interleaved(cases(256), repeats=9, calls=20, warmup=3) | interleaved(
        cases(8192), repeats=9, calls=3, warmup=2
    )
    results = {name: summarise(times) for name, times in seconds.items()}
    claims = {
        f"the scatter takes half the time of the dense form, compiled, {rows} rows": (
            results[f"scattered compiled, {rows} rows"]["median_us"],
            0.5 * results[f"dense compiled, {rows} rows"]["median_us"],
        )
        for rows in (256, 8192)
    }
    return report("projection", results, claims)


if __name__ == "__main__":
    raise SystemExit(main())

"""Warm-up, interleaved repeats, median and IQR, one JSON file a benchmark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from unilab.budget import usable_cores
from unilab.rundir import origin

RESULTS = Path("runs/benchmarks")
_PEERS = ("stable-baselines3", "sbx-rl", "jax", "flax", "envpool")


def interleaved(
    cases: Mapping[str, Callable[[], object]], *, repeats: int = 15, calls: int = 200, warmup: int = 20
) -> dict[str, np.ndarray]:
    """Time several cases in turn, so that a drift of the machine meets them all.

    Args:
        cases: what to call, by name.
        repeats: rounds over all cases.
        calls: calls per repeat and case.
        warmup: calls of each case before the first round.

    Returns:
        Seconds per call, [repeats] by name.
    """
    for case in cases.values():
        for _ in range(warmup):
            case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            began = time.perf_counter()
            for _ in range(calls):
                case()
            seconds[name].append((time.perf_counter() - began) / calls)
    return {name: np.array(values) for name, values in seconds.items()}


def summarise(seconds: np.ndarray) -> dict[str, float]:
    """Median and quartiles in microseconds."""
    low, median, high = np.percentile(seconds * 1e6, [25, 50, 75])
    return {"median_us": float(median), "q25_us": float(low), "q75_us": float(high)}


def report(name: str, results: Mapping[str, Any], claims: Mapping[str, tuple[float, float]] | None = None) -> int:
    """Print results and claims, write them with machine and versions.

    Args:
        name: of the benchmark; the file is ``runs/benchmarks/<name>.json``.
        results: figures by case, such as from ``summarise``.
        claims: (measured, allowed) by what is claimed; measured must not be greater.

    Returns:
        Exit status: the number of claims that do not hold.
    """
    print(f"== {name}")
    for case, figures in results.items():
        print(f"  {case:<44} " + "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    failed = 0
    for claim, (measured, allowed) in (claims or {}).items():
        holds = measured <= allowed
        failed += not holds
        print(f"  {'holds' if holds else 'FAILS'}: {claim}: {measured:.4g}, allowed {allowed:.4g}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"name": name, "results": results, "claims": claims or {}} | machine()
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1, default=str) + "\n")
    return failed


def machine() -> dict[str, Any]:
    """Where figures come from: versions, arguments and host, processor, load, and the peers' versions."""
    peers = {}
    for package in _PEERS:
        with suppress(metadata.PackageNotFoundError):
            peers[package] = metadata.version(package)
    return {
        "origin": origin(),
        "processor": _processor(),
        "usable_cores": usable_cores(),
        "load": load(),
        "peers": peers,
    }


def load() -> float:
    """Runnable processes of the machine, mean of the last minute: what else was there, if this one has just begun."""
    return os.getloadavg()[0]


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"

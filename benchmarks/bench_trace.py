"""What does a span cost, recorded, left out and with tracing off, and what share of a 5 ms tick is that?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import interleaved, report, summarise

from unilab.telemetry.trace import Tracer, TraceSpec
from unilab.telemetry.trace_file import begin_trace
from unilab.telemetry.trace_ticks import TickRange

SPANS = 15
"""Of one process in a tick: 7 of the learner and 8 updates; the collector has fewer."""


def main() -> int:
    """A tick's spans of one process."""
    with tempfile.TemporaryDirectory() as folder:
        path = begin_trace(Path(folder))
        specs = {
            "off": None,
            "left out": TraceSpec(path=path, ticks=TickRange(0, 0)),
            "recorded": TraceSpec(path=path, ticks=TickRange(0, 10**9), max_bytes=10**9),
            "recorded with CPU time": TraceSpec(path=path, ticks=TickRange(0, 10**9), max_bytes=10**9, cpu=True),
        }
        tracers = {name: Tracer("learner", spec) for name, spec in specs.items()}
        for tracer in tracers.values():
            tracer.at(1)
        seconds = interleaved({name: lambda tracer=tracer: tick(tracer) for name, tracer in tracers.items()})
        for tracer in tracers.values():
            tracer.close()
    results = {name: summarise(values) for name, values in seconds.items()}
    share = (np.median(seconds["recorded"]) - np.median(seconds["off"])) / 5e-3
    return report("trace", results, {f"{SPANS} recorded spans, share of a 5 ms tick": (float(share), 0.01)})


def tick(tracer: Tracer) -> None:
    """As many spans as a process has in a tick."""
    for _ in range(SPANS // 3):
        with tracer.span("act"):
            pass
        with tracer.span("env_step"):
            pass
        with tracer.span("update", tick=12345):
            pass


if __name__ == "__main__":
    sys.exit(main())

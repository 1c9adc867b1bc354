"""A trace that processes are killed over loads each time, with all but the last moment of it."""

import random
import signal
import subprocess
import sys
import time

import pytest

from unilab.telemetry.trace_file import begin_trace
from unilab.telemetry.trace_read import read_trace

WRITER = """
import sys; from pathlib import Path; from unilab.telemetry.trace import Tracer, TraceSpec
from unilab.telemetry.trace_ticks import TickRange
tracer = Tracer(sys.argv[2], TraceSpec(path=Path(sys.argv[1]), ticks=TickRange(0, 10**9)))
for tick in range(10**9):
    with tracer.span("tick", tick=tick):
        pass
    if tick % 2000 == 0: print(flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_whose_writers_are_killed_at_any_moment_loads(tmp_path, seed):
    path = begin_trace(tmp_path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE)
        for name in ("learner", "collector-0")
    ]
    for writer in writers:
        for _ in range(2):
            writer.stdout.readline()
    time.sleep(random.Random(seed).uniform(0.1, 0.6))  # the moment is what the test varies
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()

    text = path.read_text()
    lines = text.split("\n")
    trace = read_trace(path)
    spans = sum(len(trace.process(name).main) for name in ("learner", "collector-0"))
    assert lines[0] == "["
    assert all(line.startswith("{") and line.endswith("},") for line in lines[1:-1])  # only the last may be cut
    assert not trace.whole
    assert spans == sum('"ph":"X"' in line for line in lines[1:-1])

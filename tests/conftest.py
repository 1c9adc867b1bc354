"""How tests share the machine: one thread each, a process of tests per core, and some of them alone."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Benchmarks are programs beside their own modules, not a package.
sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

# With more, small sums wait for preempted threads as soon as anything else runs.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Under nohup, or put in the background by a script, these are ignored, and so they would be in all that tests start.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(autouse=True)
def _alone_or_together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests marked ``alone`` wait until no other process runs a test, and let none begin."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent
    with open(folder / "gate.lock", "a") as gate, open(folder / "machine.lock", "a") as machine:
        fcntl.flock(gate, fcntl.LOCK_EX)  # held while waiting for the machine, so that nobody overtakes
        fcntl.flock(machine, fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield

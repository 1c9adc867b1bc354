"""Saving costs the run little: no copy of the ring in memory, and hardly any time of the loop."""

import time
from pathlib import Path

import numpy as np
import pytest
from run_states import state_of

from unilab.checkpoint import Checkpoints, load_replay
from unilab.replay import Ring, RowLayout

LAYOUT = RowLayout(obs_dim=60, action_dim=4)
ROW_BYTES = 4 * LAYOUT.width + 8
LIMIT = 64 * 2**20
SIZES = [400 * 10**6, pytest.param(10**9, marks=pytest.mark.slow)]


def status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


def full_ring(nbytes):
    """A ring of that many bytes of which this process has touched each."""
    ring = Ring(nbytes // ROW_BYTES, LAYOUT)
    rows = np.arange(1000 * LAYOUT.width, dtype=np.float32).reshape(1000, -1)
    while ring.cursor < ring.capacity:
        ring.restore(ring.cursor, rows, np.full(1000, ring.cursor))
    return ring


@pytest.mark.alone
@pytest.mark.parametrize("nbytes", SIZES)
def test_a_save_adds_less_than_64_mb_and_holds_the_loop_for_less_than_a_twentieth_of_it(
    tmp_path, record_property, nbytes
):
    ring = full_ring(nbytes)
    store = Checkpoints(tmp_path, keep=1, rings=[ring])
    forget_peak()
    before, began = status("VmRSS"), time.perf_counter()

    store.begin(ring.cursor, state_of(1), {}, rows=[(ring.oldest, ring.cursor)])
    held_s, ticks = time.perf_counter() - began, 0
    while store._thread.is_alive():
        called = time.perf_counter()
        store.allow_overwrite([ring.oldest])  # a tick whose rows overwrite nothing that is needed
        held_s += time.perf_counter() - called
        ticks += 1
        np.sin(np.arange(20_000.0))  # some other work
    took_s = time.perf_counter() - began
    added = status("VmHWM") - before
    record_property("cost", f"{nbytes / took_s / 1e6:.0f} MB/s, {added / 1e6:.0f} MB, held {held_s / took_s:.2%}")

    assert store.failures == []
    assert ticks > 100
    assert added < LIMIT
    assert held_s < 0.05 * took_s
    forget_peak()
    before = status("VmRSS")
    mine = Ring(ring.capacity, LAYOUT)
    load_replay(store.wait(), [mine])
    assert status("VmHWM") - before < ring.capacity * ROW_BYTES + LIMIT
    assert mine.digest() == ring.digest()

"""Shared memory and bells across a spawned process, with either backing: what one side writes the other reads."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from unilab.errors import WorkerDied
from unilab.replay import Ring, RowLayout
from unilab.shm import Arrays, Bell, Counters, Field, Peer, Waiter

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
DEADLINE_S = 60.0


class Step:
    def __init__(self, values):
        self.next_obs = {"obs": values + 0.5}
        self.reward = values[:, 0]
        self.terminated = self.truncated = np.zeros(len(values), np.bool_)


def named_memory():
    """Names in /dev/shm but for semaphores, which other programs make and remove all the time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def append(ring, start, count):
    values = np.arange(start, start + count, dtype=np.float32)[:, None] * np.ones(2, np.float32)
    ring.append({"obs": values}, values[:, :1], Step(values), policy_version=start)


def child(arrays, counters, ring, ours, theirs):
    """Change everything, ring, then wait for the next order; an order of 3 never comes."""
    arrays.table[:] *= 2.0
    arrays.odd[0] = sum(
        os.get_inheritable(descriptor)
        for descriptor in (arrays._block._fd, ring._shared._block._fd, ours._read, theirs._write)
    )
    append(ring, 3, 4)  # wraps: rows 3 to 6 of a ring of 5
    counters["finished"] = 1
    theirs.ring()

    waiter = Waiter(ours)
    waiter.wait(lambda: counters["granted"] >= 2, "order 2", DEADLINE_S)
    arrays.table[:] += 1.0
    counters["finished"] = 2
    theirs.ring()
    waiter.wait(lambda: counters["granted"] >= 3, "order 3", DEADLINE_S)


@pytest.mark.parametrize(("backing", "use_eventfd"), [("memfd", True), ("unlinked_file", False)])
def test_what_one_process_writes_the_other_reads_until_either_is_killed(backing, use_eventfd):
    names = named_memory()
    fields = [Field("odd", (1,), "float32"), Field("table", (1000, 3), "float64")]
    arrays, ring = Arrays(fields, "sample", backing=backing), Ring(5, LAYOUT, backing=backing)
    counters, ours, theirs = (
        Counters(["granted", "finished"]),
        Bell(use_eventfd=use_eventfd),
        Bell(use_eventfd=use_eventfd),
    )
    arrays.table[:] = np.arange(3000).reshape(1000, 3)
    arrays.odd[0] = -1.0
    append(ring, 0, 3)

    process = multiprocessing.get_context("spawn").Process(target=child, args=(arrays, counters, ring, theirs, ours))
    process.start()
    pidfd = os.pidfd_open(process.pid)
    waiter = Waiter(ours, peers=[Peer("child", pidfd)])
    try:
        waiter.wait(lambda: counters["finished"] == 1, "the child's first change", DEADLINE_S)
        assert np.array_equal(arrays.table, 2.0 * np.arange(3000).reshape(1000, 3))
        assert arrays.odd[0] == 0  # no descriptor of the child would reach a program that its env starts
        assert ring.cursor == 7
        assert [rows[:, 0].tolist() for rows in ring.read(2, 7)] == [[2, 3, 4], [5, 6]]
        assert ring.versions(2, 7).tolist() == [0, 3, 3, 3, 3]

        counters["granted"] = 2
        theirs.ring()
        waiter.wait(lambda: counters["finished"] == 2, "the child's second change", DEADLINE_S)
        assert arrays.table[-1, -1] == 2 * 2999 + 1

        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="child has ended"):
            waiter.wait(lambda: counters["finished"] == 3, "what never comes", DEADLINE_S)
        assert arrays.table[-1, -1] == 2 * 2999 + 1  # the memory is still there
        assert named_memory() <= names
    finally:
        process.kill()
        process.join()
        os.close(pidfd)
        for owner in (arrays, counters, ring):
            owner.free()
        for bell in (ours, theirs):
            bell.close()

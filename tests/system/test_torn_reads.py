"""No reader ever acts on half of one thing and half of the next, and nobody's death blocks anybody."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction

import numpy as np
import pytest

from stress_workers import (
    RINGS,
    append_checksummed,
    append_freely,
    policy_like,
    read_constants,
    row_values,
    write_constants,
)
from unilab.pacing import COUNTERS, IDLE, FreeRunning, Line, Lockstep, Schedule
from unilab.replay import Ring, RowLayout, UniformSampler, pack
from unilab.replay.pack import draw
from unilab.replay.ring import open_rings
from unilab.seeding import stream
from unilab.shm import Bell, Counters, Waiter
from unilab.weights import FlatState, Manifest, WeightBlock, WeightReader
from unilab.workers import Worker

SECONDS = 10.0
pytestmark = pytest.mark.alone


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


class Stress:
    """One weight block, and processes that read and write it."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.bell = Bell()
        self.counters = Counters(COUNTERS)
        self.block = WeightBlock(Manifest.of(policy_like()))

    def start(self, name: str, target: object) -> Worker:
        worker = Worker(name, target, (self.block, self.counters), threads=1, bell=self.bell)
        self.stack.callback(worker.stop, 0.0)
        return worker

    def until_published(self, version: int) -> None:
        end = time.monotonic() + 30
        while self.block.latest < version and time.monotonic() < end:
            time.sleep(0.01)
        assert self.block.latest >= version

    def message(self, worker: Worker, kind: str) -> object:
        return worker.wait_message(kind, Waiter(self.bell, peers=worker.peers()), f"{kind} of {worker.name}", 30)


def test_readers_never_see_a_mixed_snapshot_nor_a_version_going_back(stack: ExitStack) -> None:
    stress = Stress(stack)
    readers = [stress.start(f"reader-{i}", read_constants) for i in range(2)]
    writer = stress.start("writer", write_constants)
    stress.until_published(10)
    time.sleep(SECONDS)  # the length of the trial
    stress.counters["stop"] = 1

    last = stress.message(writer, "last")
    assert last == stress.block.latest
    assert last > 1_000
    for reader in readers:
        complaints, count, longest, final = stress.message(reader, "report")
        assert complaints == []
        assert count > 100
        # A preempted reader is not waiting for the writer: three processes share the cores.
        assert longest < 0.5
        assert final <= last


def test_a_reader_killed_inside_a_read_does_not_stop_the_writer(stack: ExitStack) -> None:
    stress = Stress(stack)
    writer = stress.start("writer", write_constants)
    stress.until_published(10)
    for i in range(3):
        reader = stress.start(f"reader-{i}", read_constants)
        stress.until_published(stress.block.latest + 200)
        os.kill(reader.pid, signal.SIGKILL)
    stress.until_published(stress.block.latest + 200)
    stress.counters["stop"] = 1

    assert stress.message(writer, "last") == stress.block.latest


def test_a_writer_killed_inside_a_write_leaves_a_whole_snapshot(stack: ExitStack) -> None:
    for _ in range(5):
        stress = Stress(stack)
        writer = stress.start("writer", write_constants)
        stress.until_published(50)
        os.kill(writer.pid, signal.SIGKILL)
        writer.stop(5.0)

        state = FlatState(policy_like())
        version = WeightReader(stress.block, state).fetch_if_newer()
        assert version == stress.block.latest
        assert all((state.view(entry) == version).all() for entry in state.manifest.entries)


def test_a_packer_beside_a_writing_collector_never_packs_a_wrong_row(stack: ExitStack) -> None:
    layout = RowLayout(obs_dim=40, action_dim=1)
    schedule = Schedule(
        num_envs=16,
        steps_per_tick=4,
        learning_starts=400,
        total_steps=10**9,
        utd=Fraction(1),
        capacity=300,  # smaller than the prefill: full from the start, and every chunk overwrites a fifth
    )
    ring, counters, mine, theirs = Ring(300, layout), Counters(COUNTERS), Bell(), Bell()
    counters["granted"] = counters["finished"] = -1
    worker = Worker("collector-0", append_checksummed, (ring, schedule, counters, theirs, mine), threads=1, bell=mine)
    stack.callback(worker.stop, 2.0)
    waiter = Waiter(mine, peers=worker.peers())
    pacer = Lockstep(schedule, [Line(counters, theirs, 30.0, "collector-0")])
    sampler = UniformSampler(stream(0, "sample"))
    out = np.empty((256, layout.width), np.float32)
    pacer.grant(0)
    pacer.wait_finished(0, waiter)
    pacer.grant(1)

    tick, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        tick += 1
        pacer.wait_finished(tick, waiter)
        pacer.grant(tick + 1)  # from here the collector overwrites what is not in the domain
        low, high = schedule.domain(tick)
        numbers = sampler.draw(tick, low, high, len(out))
        for _ in range(4):
            pack([ring], sampler, out, tick=tick, domain=[(low, high)])
            expected = row_values(numbers, layout.obs_dim)
            np.testing.assert_array_equal(out[:, layout.columns["obs"]], expected)
            np.testing.assert_array_equal(out[:, layout.columns["next_obs"]], expected)
    counters["stop"] = 1
    theirs.ring()

    assert tick > 200
    assert high > 20 * ring.capacity


def test_a_packer_beside_four_free_running_collectors_and_full_rings_never_packs_a_wrong_row(stack: ExitStack) -> None:
    layout = RowLayout(obs_dim=40, action_dim=1)
    schedule = Schedule(
        num_envs=4 * RINGS, steps_per_tick=4, learning_starts=1_000, total_steps=10**9, utd=Fraction(1),
        capacity=640,  # the least that is allowed, and less than the prefill: every permit overwrites old rows
        num_collectors=RINGS, ahead=2 * RINGS,
    )  # fmt: skip
    shares, mine = schedule.shares, Bell()
    rings = open_rings([share.capacity for share in shares], layout)
    stack.callback(rings[0].free)
    lines, peers = [], []
    for ring, share in zip(rings, shares, strict=True):
        counters, bell, name = Counters(COUNTERS), Bell(), f"collector-{ring.index}"
        counters["granted"] = counters["finished"] = -1
        counters["acting"] = IDLE
        worker = Worker(name, append_freely, (ring, share, counters, bell, mine), threads=1, bell=mine)
        stack.callback(worker.stop, 2.0)
        lines.append(Line(counters, bell, 30.0, name))
        peers += worker.peers()
    waiter, sampler = Waiter(mine, peers=peers), UniformSampler(stream(0, "sample"))
    pacer, out = FreeRunning(schedule, lines), np.empty((256, layout.width), np.float32)
    pacer.grant(0)
    pacer.wait_finished(0, waiter)
    pacer.grant(1)

    tick, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        tick += 1
        pacer.wait_finished(tick, waiter)
        both = zip(shares, pacer.reach(tick), pacer.counted(tick), strict=True)
        domain = [(share.oldest(reach - 1), share.watermark(chunk)) for share, reach, chunk in both]
        pacer.grant(tick)  # the last permits before the batch is taken
        owners, numbers = draw(sampler, tick, domain, len(out))
        expected = row_values(numbers * RINGS + owners, layout.obs_dim)
        for _ in range(4):
            pack(rings, sampler, out, tick=tick, domain=domain)
            np.testing.assert_array_equal(out[:, layout.columns["obs"]], expected)
            np.testing.assert_array_equal(out[:, layout.columns["next_obs"]], expected)
    for line in lines:
        line.counters["stop"] = 1
        line.bell.ring()

    assert tick > 200
    assert all(ring.cursor > 5 * ring.capacity for ring in rings)

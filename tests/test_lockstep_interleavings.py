"""Learner, collector and copy thread in every order that a scheduler can think of: one result.

The real schedule, ring, sampler, weight block, pacer and pipeline, in threads that a seeded baton switches
between at every wait and in the middle of every write and read of shared memory (see ``baton``). Training and
simulation are made up, so that everything depends on everything: an update mixes its batch into the weights;
the rows of a chunk hold the weights that acted. docs/design.md describes the protocol.
"""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from baton import Baton, under
from torch import nn

from unilab.assembly import ChunkBatches
from unilab.errors import Stopped
from unilab.pacing import COUNTERS, Line, Lockstep, LockstepCollector, Schedule, SerialLockstep
from unilab.replay import HostSlots, Ring, RowLayout, UniformSampler
from unilab.replay.ring import RANDOM_POLICY
from unilab.sampling import KeyedDraws
from unilab.seeding import stream
from unilab.shm import Bell, Counters, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer import CpuCopier, Pipeline
from unilab.weights import FlatState, WeightBlock, WeightReader, WeightWriter
from unilab.weights import block as block_module
from unilab.workers.collector import collect

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
BATCH = 3
SAVE_AT = 5
SEEDS = 60

CASES = {
    "wraps early": Schedule(
        num_envs=3, steps_per_tick=1, learning_starts=8, total_steps=45, utd=Fraction(1), capacity=7
    ),
    "two steps, half an update a row": Schedule(
        num_envs=2, steps_per_tick=2, learning_starts=5, total_steps=54, utd=Fraction("0.5"), capacity=12
    ),
    "a third of an update a row": Schedule(
        num_envs=1, steps_per_tick=1, learning_starts=4, total_steps=20, utd=Fraction("0.37"), capacity=9
    ),
    "never wraps": Schedule(
        num_envs=3, steps_per_tick=1, learning_starts=0, total_steps=30, utd=Fraction(2), capacity=100
    ),
}


class Net(nn.Module):
    """All weights are equal and the counter is the version: a torn snapshot shows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((64,), 0.5))
        self.register_buffer("version", torch.zeros((), dtype=torch.int64))

    def value(self):
        value = self.weight[0].item()
        assert (self.weight == value).all(), "torn weights"
        return value


class World:
    """Everything of one run, shared memory included."""

    def __init__(self, schedule, baton, *, slots=2):
        self.schedule, self.baton = schedule, baton
        self.log = []
        self.pause = baton.pause if baton else lambda: None
        self.bells = [Bell() for _ in range(3)]
        self.counters = Counters(COUNTERS)
        self.counters["granted"] = self.counters["finished"] = -1
        self.ring = Ring(schedule.capacity, LAYOUT)
        self.ring.gather = self._gather_row_by_row(self.ring.gather)
        self.slots = HostSlots(slots, schedule.max_updates * BATCH, LAYOUT)
        self.net = Net()
        state = FlatState(self.net)
        self.block = WeightBlock(state.manifest)
        self.writer = WeightWriter(self.block, state)
        self.stop = lambda: bool(self.counters["stop"])

    def waiter(self, number):
        waiter = Waiter(self.bells[number], self.stop)
        return under(self.baton, waiter) if self.baton else waiter

    def ask_stop(self):
        self.counters["stop"] = 1
        for bell in self.bells:
            bell.ring()

    def free(self):
        for owner in (self.counters, self.ring, self.slots, self.block):
            owner.free()
        for bell in self.bells:
            bell.close()

    def _gather_row_by_row(self, gather):
        def gather_slowly(numbers, out):
            for i in range(len(numbers)):
                self.pause()
                gather(numbers[i : i + 1], out[i : i + 1])

        return gather_slowly


class Collector:
    """Rows that say their number, their env and the weight that acted; packs the batch of each chunk."""

    def __init__(self, world):
        self._world = world
        self._net = Net()
        self._reader = WeightReader(world.block, FlatState(self._net))
        self._sampler = UniformSampler(stream(0, "sample"))
        self._row = 0

    def run(self, chunk, round_done):
        world, version = self._world, RANDOM_POLICY
        if chunk.version is not None:
            version = self._reader.fetch(chunk.version)
            assert self._net.version.item() == version
        value = -1.0 if chunk.version is None else self._net.value()
        for _ in range(chunk.rounds):
            n = world.schedule.num_envs
            numbers = np.arange(self._row, self._row + n, dtype=np.float32)
            self._row += n
            obs = np.stack([numbers, np.full(n, value, np.float32)], axis=1)
            step = SimpleNamespace(
                next_obs=Pausing(world.pause, obs=obs + 1),
                reward=numbers / 64,
                terminated=numbers % 2 == 0,
                truncated=numbers % 3 == 0,
            )
            action = np.full((n, 1), value, np.float32)
            world.ring.append(Pausing(world.pause, obs=obs), action, step, policy_version=version)
            round_done()
            world.pause()
        if chunk.number:
            pack(world, self._sampler, chunk.number)
        world.log.append(("chunk", chunk.number, chunk.version, value))


class Pausing(dict):
    """Observations that hand the baton on in the middle of an append."""

    def __init__(self, pause, **groups):
        super().__init__(groups)
        self._pause = pause

    def __getitem__(self, name):
        self._pause()
        return super().__getitem__(name)


def pack(world, sampler, tick):
    low, high = world.schedule.domain(tick)
    rows = world.schedule.updates(tick) * BATCH
    world.slots.pack([world.ring], sampler, tick=tick, rows=rows, domain=[(low, high)])


class PackedByTheLearner:
    """Batches that are packed beside the next chunk, which then has to keep clear of their rows."""

    def __init__(self, world, pacer):
        self._world, self._pacer = world, pacer
        self._sampler = UniformSampler(stream(0, "sample"))

    def ask(self, tick):
        pass

    def fetch(self, tick, waiter):
        self._pacer.wait_finished(tick, waiter)
        pack(self._world, self._sampler, tick)
        return self._world.slots.packed(tick)


def update(net, minibatch):
    """Mix a minibatch into the weights."""
    with torch.no_grad():
        net.weight.mul_(0.5).add_(minibatch.reward.sum() + minibatch.action.mean())


def learn(world, pacer, pipeline, *, eager=False):
    """The main loop, as in ``train``; an eager one grants chunk t + 1 before batch t is taken."""
    waiter, schedule, last = world.waiter(0), world.schedule, world.schedule.total_ticks
    world.writer.publish(0)
    pacer.grant(0)
    pacer.wait_finished(0, waiter)
    pipeline.prefetch(1)
    pacer.grant(1)
    for tick in range(1, last + 1):
        if eager and tick < last:
            pacer.grant(tick + 1)
        batch = pipeline.take(tick)
        world.pause()
        if tick < last:
            pipeline.prefetch(tick + 1)
            world.pause()
            if not eager:
                pacer.grant(tick + 1)
        low, high = schedule.domain(tick)
        numbers = batch.rows[:, 0]
        assert ((low <= numbers) & (numbers < high)).all(), "a row from outside of the domain"
        assert (batch.rows[:, LAYOUT.columns["next_obs"]] == batch.rows[:, :2] + 1).all(), "a torn row"
        for minibatch in batch.split(BATCH):
            world.pause()
            update(world.net, minibatch)
        world.log.append(("tick", tick, batch.rows.tolist(), batch.packed.versions.tolist()))
        pipeline.release(batch)
        world.net.version.fill_(tick)
        world.writer.publish(tick)
        if tick == SAVE_AT:
            pacer.wait_finished(tick + 1, waiter)
            world.log.append(("save", tick, world.ring.cursor, world.ring.digest()))
    world.log.append(("end", world.ring.cursor, world.ring.digest(), world.net.value()))


def pipeline_of(world, pacer, *, threaded, by_learner=False):
    source = PackedByTheLearner(world, pacer) if by_learner else ChunkBatches(world.slots, pacer, KeyedDraws())
    return Pipeline(
        source,
        LAYOUT,
        2,
        CpuCopier([world.slots.host[i % len(world.slots.host)] for i in range(2)]),
        waiter=world.waiter(0),
        background=world.waiter(1) if threaded else None,
        trace=Tracer("learner"),
    )


def serial_log(schedule):
    """What happens in one thread, without any choice of order."""
    world = World(schedule, None)
    collector = Collector(world)
    pacer = SerialLockstep(schedule, lambda chunk: collector.run(chunk, lambda: None))
    pipeline = pipeline_of(world, pacer, threaded=False)
    learn(world, pacer, pipeline)
    pipeline.close()
    world.free()
    return world.log


def serial_run(schedule):
    """The reference."""
    return sorted(map(str, serial_log(schedule)))


def interleaved_run(schedule, seed, *, threaded=True, by_learner=False, eager=False, slots=2):
    baton = Baton(seed)
    world = World(schedule, baton, slots=slots)
    pacer = Lockstep(schedule, [Line(world.counters, world.bells[2], 1e6, "collector-0")])
    baton.enter()

    def collector_side():
        source = LockstepCollector(schedule, world.counters, world.waiter(2), world.bells[:2])
        collect(Collector(world), source, Tracer("collector-0"))

    thread = baton.start(collector_side, on_error=world.ask_stop)
    pipeline = pipeline_of(world, pacer, threaded=threaded, by_learner=by_learner)
    baton.await_tasks(3 if threaded else 2)
    try:
        learn(world, pacer, pipeline, eager=eager)
    except Stopped:
        assert baton.errors
    finally:
        world.ask_stop()
        baton.set_free()
        pipeline.close()
        thread.join(30)
        assert not thread.is_alive()
        world.free()
    if baton.errors:
        raise baton.errors[0]
    return sorted(map(str, world.log))


class HalfAndHalf:
    """numpy for the weight block, with copies that are interrupted in the middle."""

    def __init__(self, pause):
        self._pause = pause

    def __getattr__(self, name):
        return getattr(np, name)

    def copyto(self, target, source):
        half = len(target) // 2
        np.copyto(target[:half], source[:half])
        self._pause[0]()
        np.copyto(target[half:], source[half:])


@pytest.fixture
def torn_copies(monkeypatch):
    """Make every publication and every fetch take two steps."""
    pause = [lambda: None]
    monkeypatch.setattr(block_module, "np", HalfAndHalf(pause))
    original = Baton.__init__

    def init(self, seed):
        original(self, seed)
        pause[0] = self.pause

    monkeypatch.setattr(Baton, "__init__", init)
    return pause


@pytest.mark.usefixtures("torn_copies")
@pytest.mark.parametrize("threaded", [False, True], ids=["inline", "threaded"])
@pytest.mark.parametrize("name", CASES)
def test_every_interleaving_gives_the_bits_of_the_serial_run(name, threaded):
    schedule = CASES[name]
    reference = serial_run(schedule)

    for seed in range(SEEDS):
        assert interleaved_run(schedule, seed, threaded=threaded) == reference, f"seed {seed}"


def test_the_serial_run_is_what_the_design_says():
    log = serial_log(CASES["wraps early"])
    chunks = [entry[1:3] for entry in log if entry[0] == "chunk"]
    ticks = [entry for entry in log if entry[0] == "tick"]

    # prefill of 9 rows, then 3 a tick until 45: 12 ticks, and the last of them grants nothing
    assert chunks == [(0, None), *[(c, max(c - 2, 0)) for c in range(1, 13)]]
    assert [entry[1] for entry in ticks] == list(range(1, 13))
    assert all(len(entry[2]) == 3 * BATCH for entry in ticks)
    assert [entry[2] for entry in log if entry[0] == "save"] == [9 + 6 * 3]
    assert [entry[1] for entry in log if entry[0] == "end"] == [45]


class ReachesTooFar(Schedule):
    """Draws from rows that the next chunk overwrites."""

    def domain(self, tick):
        high = self.watermark(tick)
        return max(0, high - self.capacity), high


class ActsOnTheNewest(Schedule):
    """Acts with the version that the learner publishes meanwhile."""

    def chunk(self, number):
        return super().chunk(number) if number < 2 else replace(super().chunk(number), version=number - 1)


def outcomes(schedule, **options):
    """Results, or what went wrong, over many orders."""
    found = set()
    for seed in range(SEEDS):
        try:
            found.add(tuple(interleaved_run(schedule, seed, **options)))
        except Exception as error:
            found.add(str(error))
    return found


def as_kind(kind, schedule):
    return kind(**{name: getattr(schedule, name) for name in Schedule.__dataclass_fields__})


@pytest.mark.usefixtures("torn_copies")
def test_acting_on_the_newest_version_would_not_give_one_result():
    assert len(outcomes(as_kind(ActsOnTheNewest, CASES["wraps early"]))) > 1


@pytest.mark.usefixtures("torn_copies")
def test_the_domain_alone_keeps_a_batch_clear_of_the_chunk_that_comes_in():
    schedule = CASES["wraps early"]

    assert outcomes(schedule, by_learner=True, eager=True) == {tuple(serial_run(schedule))}
    assert len(outcomes(as_kind(ReachesTooFar, schedule), by_learner=True, eager=True)) > 1


@pytest.mark.usefixtures("torn_copies")
def test_batches_that_shared_a_slot_would_not_give_one_result():
    assert len(outcomes(CASES["wraps early"], slots=1)) > 1


@pytest.mark.usefixtures("torn_copies")
def test_a_ring_that_is_forgotten_is_seen_as_a_deadlock(monkeypatch):
    def finished_quietly(self, chunk):
        self._next = chunk.number + 1
        self._counters["finished"] = chunk.number

    monkeypatch.setattr(LockstepCollector, "finished", finished_quietly)

    assert "everybody waits and nobody was woken" in outcomes(CASES["wraps early"])

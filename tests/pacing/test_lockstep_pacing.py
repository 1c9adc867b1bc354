"""The counts of a run by hand and by brute force, and both sides of the lockstep."""

import threading
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from unilab.errors import ConfigError, Stopped, WaitTimeout, WorkerDied
from unilab.pacing import COUNTERS, PHASES, Chunk, Line, Lockstep, LockstepCollector, Schedule, SerialLockstep
from unilab.shm import Bell, Counters, Waiter

BY_HAND = Schedule(num_envs=3, steps_per_tick=2, learning_starts=10, total_steps=30, utd=Fraction(1), capacity=16)


def schedules(utd=Fraction(1)):
    """Small cases of every kind: rings that wrap at once and late, prefills of one round and of many."""
    for num_envs, steps, starts, capacity in product((1, 2, 3), (1, 2), (0, 1, 5, 20), (4, 6, 12, 13, 17, 100)):
        if capacity >= 2 * num_envs * steps:
            yield Schedule(
                num_envs=num_envs,
                steps_per_tick=steps,
                learning_starts=starts,
                total_steps=60,
                utd=utd,
                capacity=capacity,
            )


# ------------------------------------------------------------ counts


def test_the_prefill_is_rounded_up_to_whole_rounds_and_is_at_least_one():
    assert BY_HAND.prefill == 12
    assert replace(BY_HAND, learning_starts=12).prefill == 12
    assert replace(BY_HAND, learning_starts=13).prefill == 15
    assert replace(BY_HAND, learning_starts=0).prefill == 3


def test_watermarks_and_ticks_by_hand():
    assert BY_HAND.chunk_rows == 6
    assert [BY_HAND.watermark(tick) for tick in range(4)] == [12, 18, 24, 30]
    assert BY_HAND.total_ticks == 3


def test_the_last_chunk_is_whole():
    assert replace(BY_HAND, total_steps=31).total_ticks == 4
    assert replace(BY_HAND, total_steps=36).total_ticks == 4
    assert replace(BY_HAND, total_steps=13).total_ticks == 1


def test_a_run_ends_at_the_first_chunk_that_reaches_the_total():
    for schedule in schedules():
        last = schedule.total_ticks
        assert schedule.watermark(last) >= schedule.total_steps > schedule.watermark(last - 1)


def test_progress_is_the_share_of_ticks_that_are_done_when_a_chunk_begins():
    assert [BY_HAND.progress(chunk) for chunk in range(4)] == [0.0, 0.0, 1 / 3, 2 / 3]


def test_domains_by_hand():
    assert [BY_HAND.domain(tick) for tick in (1, 2, 3)] == [(8, 18), (14, 24), (20, 30)]
    assert replace(BY_HAND, capacity=100).domain(3) == (0, 30)


def test_a_domain_is_exactly_what_is_in_the_ring_and_stays_there_while_the_next_chunk_comes_in():
    for schedule in schedules():
        for tick in range(1, 12):
            cells = {}
            for row in range(schedule.watermark(tick)):
                cells[row % schedule.capacity] = row
            overwritten = {
                row % schedule.capacity for row in range(schedule.watermark(tick), schedule.watermark(tick + 1))
            }
            safe = sorted(row for cell, row in cells.items() if cell not in overwritten)

            assert list(range(*schedule.domain(tick))) == safe
            assert safe


@pytest.mark.parametrize("utd", ["1", "0.37", "2", "0.001", "1.5", "0"])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
@pytest.mark.parametrize("steps_per_tick", [1, 4])
def test_updates_add_up_to_the_whole_part_of_utd_times_rows(utd, num_envs, steps_per_tick):
    schedule = replace(BY_HAND, utd=Fraction(utd), num_envs=num_envs, steps_per_tick=steps_per_tick, capacity=1000)
    rows = total = 0
    for tick in range(1, 1001):
        rows += num_envs * steps_per_tick
        total += schedule.updates(tick)
        assert total == Fraction(utd) * rows // 1 == schedule.updates_until(tick)
        assert 0 <= schedule.updates(tick) <= schedule.max_updates


def test_updates_by_hand():
    # 0.37 per row, 3 rows a tick: 1.11, 2.22, 3.33, ..., 9.99, 11.1
    schedule = replace(BY_HAND, utd=Fraction("0.37"), steps_per_tick=1)

    assert [schedule.updates(tick) for tick in range(1, 11)] == [1] * 9 + [2]
    assert schedule.max_updates == 2


@pytest.mark.parametrize("utd", ["1", "0.37", "2", "0.001", "1.5", "0", "0.333"])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
def test_the_largest_tick_has_max_updates(utd, num_envs):
    schedule = replace(BY_HAND, utd=Fraction(utd), num_envs=num_envs, steps_per_tick=1, capacity=1000)

    assert max(schedule.updates(tick) for tick in range(1, 1001)) == schedule.max_updates


def test_a_chunk_acts_with_the_version_published_last_before_its_grant():
    assert [BY_HAND.chunk(number) for number in range(5)] == [
        Chunk(0, 4, None),  # the prefill: 4 rounds of 3 envs, uniform random actions
        Chunk(1, 2, 0),
        Chunk(2, 2, 0),
        Chunk(3, 2, 1),
        Chunk(4, 2, 2),
    ]


def test_chunks_fill_the_ring_up_to_the_watermark():
    for schedule in schedules():
        rows = 0
        for number in range(6):
            rows += schedule.chunk(number).rounds * schedule.num_envs
            assert rows == schedule.watermark(number)


def test_a_total_within_the_prefill_is_refused():
    with pytest.raises(ConfigError, match="total_steps=12 ends within the prefill of 12 transitions"):
        replace(BY_HAND, total_steps=12)
    with pytest.raises(ConfigError, match="raise total_steps or lower learning_starts"):
        replace(BY_HAND, learning_starts=10**6)


def test_a_ring_of_less_than_two_chunks_is_refused_with_the_least_that_works():
    with pytest.raises(ConfigError, match=r"buffer_size=11 is smaller than two chunks of 6 rows .* at least 12"):
        replace(BY_HAND, capacity=11)
    assert replace(BY_HAND, capacity=12).domain(3) == (24, 30)


def test_a_negative_utd_is_refused():
    with pytest.raises(ConfigError, match=r"utd=-0\.5 is negative"):
        replace(BY_HAND, utd=Fraction("-0.5"))


# ------------------------------------------------------------ the learner's side


@pytest.fixture
def counters():
    counters = Counters(COUNTERS)
    counters["granted"] = counters["finished"] = -1
    yield counters
    counters.free()


@pytest.fixture
def bell():
    bell = Bell()
    yield bell
    bell.close()


class Clock:
    """Seconds that pass only where a wait times out; also the waiter, for a script of what happens when."""

    def __init__(self):
        self.now = 0.0
        self.script = []  # (seconds, what happens)

    def monotonic(self):
        return self.now

    def wait(self, condition, what, deadline_s=None):
        if condition():
            return
        ends = self.now + deadline_s
        while self.script and self.script[0][0] <= ends:
            self.now, happen = self.script.pop(0)
            happen()
            if condition():
                return
        self.now = max(self.now, ends)
        raise WaitTimeout(what)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("unilab.pacing.waiting.time", clock)
    return clock


@pytest.fixture
def lockstep(counters, bell):
    return Lockstep(BY_HAND, [Line(counters, bell, stall_limit_s=60.0, who="collector-0 (pid 7)")])


def step(counters):
    counters["rounds"] += 1


def test_a_grant_is_in_the_counter_before_the_collector_is_woken(counters):
    class Spy:
        def ring(self):
            seen.append(counters["granted"])

    seen = []
    Lockstep(BY_HAND, [Line(counters, Spy(), 60.0, "collector-0")]).grant(3)

    assert seen == [3]


def test_a_chunk_that_is_in_is_not_waited_for(counters, lockstep, clock):
    counters["finished"] = 5

    lockstep.wait_finished(4, clock)
    lockstep.wait_finished(5, clock)
    assert clock.now == 0


def test_a_chunk_is_waited_for_until_it_is_in(counters, lockstep, clock):
    clock.script = [
        (3.5, lambda: counters.__setitem__("finished", 4)),
        (7.5, lambda: counters.__setitem__("finished", 5)),
    ]
    lockstep.wait_finished(5, clock)

    assert clock.now == 7.5


@pytest.mark.parametrize("look", [None, lambda: None])
def test_a_collector_without_a_step_for_the_stall_limit_is_named(counters, lockstep, clock, look):
    counters["phase"] = PHASES.index("env_step")
    with pytest.raises(WorkerDied) as caught:
        lockstep.wait_finished(5, clock, look)

    assert str(caught.value) == (
        "no data from collector-0 (pid 7) for 60 s, while waiting for chunk 5: it is stuck in env_step or "
        "stopped (round 0); if its steps are that slow, raise --stall-limit"
    )
    assert 60 <= clock.now <= 62


@pytest.mark.parametrize("look", [None, lambda: None])
def test_the_stall_limit_counts_from_the_last_step(counters, lockstep, clock, look):
    clock.script = [(second, lambda: step(counters)) for second in (10.0, 20.0, 30.5)]

    with pytest.raises(WorkerDied, match=r"for 6\d s.*round 3"):
        lockstep.wait_finished(5, clock, look)
    assert 90.5 <= clock.now <= 92.5  # the limit of 60 s, not twice the limit


@pytest.mark.parametrize("look", [None, lambda: None])
def test_a_slow_collector_that_steps_within_the_limit_is_waited_for(counters, lockstep, clock, look):
    clock.script = [(59.0 * i, lambda: step(counters)) for i in range(1, 21)]
    clock.script += [(1200.0, lambda: counters.__setitem__("finished", 5))]

    lockstep.wait_finished(5, clock, look)
    assert clock.now == 1200


def test_time_in_which_the_learner_itself_was_stopped_is_no_stall(counters, lockstep, clock):
    def stopped():
        clock.now += 500.0

    clock.script = [
        (0.5, stopped),
        (505.0, lambda: step(counters)),
        (520.0, lambda: counters.__setitem__("finished", 5)),
    ]

    lockstep.wait_finished(5, clock)
    assert clock.now == 520


def test_progress_is_looked_at_about_once_a_second(counters, lockstep, clock):
    clock.script = [(10.5, lambda: counters.__setitem__("finished", 0))]
    looks = []
    lockstep.wait_finished(0, clock, lambda: looks.append(clock.now))

    assert looks == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_stall_limit_below_a_second_is_kept_too(counters, bell, clock):
    with pytest.raises(WorkerDied, match="no data"):
        Lockstep(BY_HAND, [Line(counters, bell, 0.25, "collector-0")]).wait_finished(1, clock)
    assert clock.now <= 0.5


def test_an_endless_stall_limit_waits_for_data(counters, bell):
    lockstep = Lockstep(BY_HAND, [Line(counters, bell, float("inf"), "collector-0")])

    def finish():
        counters["finished"] = 1
        bell.ring()

    thread = threading.Thread(target=finish)
    thread.start()
    lockstep.wait_finished(1, Waiter(bell))
    thread.join()


def test_stop_ends_the_wait_for_a_chunk(lockstep, bell):
    with pytest.raises(Stopped, match="chunk 5"):
        lockstep.wait_finished(5, Waiter(bell, lambda: True))


# ------------------------------------------------------------ the collector's side


@pytest.fixture
def collector(counters, bell):
    return LockstepCollector(BY_HAND, counters, Waiter(bell, lambda: bool(counters["stop"])), [bell])


def test_granted_chunks_come_one_by_one_and_in_order(counters, collector):
    counters["granted"] = 2  # never in lockstep, but no chunk may be skipped
    numbers = []
    for _ in range(3):
        chunk = collector.next_chunk()
        numbers.append(chunk.number)
        collector.finished(chunk)

    assert numbers == [0, 1, 2]
    assert counters["finished"] == 2


def test_a_chunk_that_was_not_granted_is_waited_for(counters, collector, bell):
    counters["granted"] = 0
    collector.finished(collector.next_chunk())
    seen = []

    thread = threading.Thread(target=lambda: seen.append(collector.next_chunk()))
    thread.start()
    counters["granted"] = 1
    bell.ring()
    thread.join(30)

    assert seen == [Chunk(1, 2, 0)]


def test_stop_is_the_end_of_chunks_even_where_one_is_granted(counters, collector):
    counters["granted"] = 0
    counters["stop"] = 1

    assert collector.next_chunk() is None


def test_each_round_is_counted_and_stop_ends_a_chunk_after_it(counters, collector):
    collector.round_done()
    collector.round_done()
    assert counters["rounds"] == 2

    counters["stop"] = 1
    with pytest.raises(Stopped, match="in the middle of a chunk"):
        collector.round_done()
    assert counters["rounds"] == 3


def test_a_finished_chunk_is_in_the_counter_before_any_listener_is_woken(counters, bell):
    class Spy:
        def ring(self):
            seen.append(counters["finished"])

    seen = []
    collector = LockstepCollector(BY_HAND, counters, Waiter(bell), [Spy(), Spy()])
    collector.finished(Chunk(0, 4, None))

    assert seen == [0, 0]


def test_a_collector_goes_on_behind_the_last_finished_chunk(counters, bell):
    counters["granted"], counters["finished"], counters["rounds"] = 8, 7, 100
    collector = LockstepCollector(BY_HAND, counters, Waiter(bell), [])

    assert collector.next_chunk() == Chunk(8, 2, 6)
    collector.round_done()
    assert counters["rounds"] == 101


# ------------------------------------------------------------ both sides in one process


def test_a_serial_grant_runs_the_chunk_to_its_end():
    ran = []
    pacer = SerialLockstep(BY_HAND, ran.append)
    pacer.grant(0)
    pacer.grant(1)
    pacer.wait_finished(1, waiter=None)

    assert ran == [BY_HAND.chunk(0), BY_HAND.chunk(1)]


# ------------------------------------------------------------ parking


class Script:
    """A waiter during whose waits one thing after the other happens."""

    def __init__(self, *happenings):
        self.left = list(happenings)

    def wait(self, condition, what, deadline_s=None):
        while not condition():
            self.left.pop(0)()


def test_a_parked_collector_is_asked_as_often_as_the_learner_asks_and_then_goes_on(counters, bell):
    counters["finished"] = counters["granted"] = 4
    line = Line(counters, bell, 60.0, "collector-0")
    pacer = Lockstep(BY_HAND, [line])
    script, asked = Script(line.ask_state, line.ask_state, lambda: pacer.grant(5)), []
    source = LockstepCollector(BY_HAND, counters, script, [], parked=lambda: asked.append(len(script.left)))

    assert source.next_chunk().number == 5
    assert asked == [2, 1]
    assert script.left == []

"""Free-running pacing: credit account, lag bound and domain, looked at after every event of simulated runs."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from pacing_world import NoBell, World

from unilab.errors import ConfigError, WorkerDied
from unilab.pacing import COUNTERS, FreeRunning, Line, PacingConfig, Schedule, check_pacing
from unilab.shm import Bell, Counters, Waiter

TWO = Schedule(
    num_envs=4, steps_per_tick=2, learning_starts=40, total_steps=400, utd=Fraction(1), capacity=100, num_collectors=2,
    ahead=4,
)  # fmt: skip


def kinds(seed):
    """Durations of chunks and of ticks: who is slow, and how evenly."""
    rng = random.Random(seed)
    return {
        "a slow learner": (lambda i: 1.0, lambda: 7.0),
        "a fast learner": (lambda i: 1.0, lambda: 0.01),
        "one slow collector": (lambda i: 30.0 if i == 0 else 1.0, lambda: 0.7),
        "all at once": (lambda i: 1.0, lambda: 0.5),
        "jitter": (lambda i: rng.expovariate(1.0), lambda: rng.expovariate(1.5)),
        "bursts": (lambda i: rng.choice([0.1, 0.1, 0.1, 9.0]), lambda: rng.choice([0.1, 3.0])),
    }


NAMES = tuple(kinds(0))


def schedules():
    """One collector and many, small and large credits, updates in fractions, a debt."""
    yield TWO
    yield replace(TWO, utd=Fraction("0.37"))
    yield replace(TWO, utd=Fraction(3), ahead=2)
    yield replace(TWO, num_collectors=1, ahead=1)
    yield replace(TWO, num_collectors=4, ahead=9, capacity=200)
    yield replace(TWO, debt_rows=40)
    yield replace(TWO, debt_rows=13, utd=Fraction("0.5"))


def run(schedule, name, look=lambda world: None, seed=0, **how):
    world = World(schedule, *kinds(seed)[name], **how)
    try:
        return world.run(look)
    finally:
        world.free()


@pytest.mark.parametrize("name", NAMES)
def test_updates_are_utd_times_the_steps_counted_at_any_moment_and_exactly_at_the_end(name):
    for schedule in schedules():
        owed = schedule.debt_rows

        def look(world, schedule=schedule, owed=owed):
            seen = world.seen
            counted = owed + max(0, schedule.watermark(seen.ticks) - schedule.prefill)
            # The debt is worked off chunk by chunk.
            counted -= max(0, schedule.debt_ticks - seen.ticks) * schedule.chunk_rows if seen.ticks else owed
            chunk = schedule.utd * schedule.chunk_rows
            assert schedule.utd * counted - chunk - 1 < seen.updates <= schedule.utd * counted

        seen = run(schedule, name, look)
        rows = sum(seen.chunks) * schedule.chunk_rows
        assert schedule.prefill + rows == schedule.watermark(schedule.total_ticks)
        assert seen.updates == math.floor(schedule.utd * (rows + owed))


@pytest.mark.parametrize("name", NAMES)
def test_chunks_that_are_granted_and_not_spent_never_exceed_the_cap_and_are_used_up(name):
    for schedule in schedules():
        most = 0

        def look(world, schedule=schedule):
            nonlocal most
            granted = sum(own["granted"] for own in world.counters)
            unspent = granted - max(0, world.seen.ticks - schedule.debt_ticks)
            assert unspent <= schedule.ahead
            most = max(most, unspent)

        run(schedule, name, look)
        assert most == schedule.ahead


def test_a_learner_that_is_fast_waits_instead_of_training_beyond_its_credit():
    seen = run(replace(TWO, ahead=8, capacity=200), "a fast learner", lambda world: spent_what_was_there(world))

    assert seen.ticks == TWO.total_ticks


def spent_what_was_there(world):
    assert world.seen.ticks <= sum(world.seen.chunks)


def test_a_slow_collector_holds_no_other_up():
    seen = run(TWO, "one slow collector")

    assert seen.chunks[1] > 15 * seen.chunks[0] > 0


def test_collectors_of_one_speed_take_turns():
    seen = run(TWO, "a slow learner")

    assert abs(seen.chunks[0] - seen.chunks[1]) <= 1


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_lag_at_arrival_keeps_to_the_formula(name, interval):
    for seed, schedule in enumerate(schedules()):
        seen = run(schedule, name, seed=seed, interval=interval)
        for at_launch, at_arrival, others in seen.lags:
            owed = schedule.debt_ticks  # ticks that wait for no chunk
            assert at_launch < interval
            assert at_arrival <= schedule.ahead - 1 + others + interval + owed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bound", "interval"), [(1, 1), (2, 1), (3, 2), (5, 5)])
def test_a_learner_that_waits_never_makes_a_chunk_older_than_the_bound(name, bound, interval):
    for seed, schedule in enumerate(schedules()):
        seen = run(schedule, name, seed=seed, lag=bound, interval=interval)
        assert max(at_arrival for _, at_arrival, _ in seen.lags) <= bound
        assert max(at_launch for at_launch, _, _ in seen.lags) < interval
        assert seen.ticks == schedule.total_ticks


def test_without_the_bound_the_same_run_has_older_chunks():
    assert max(lag for _, lag, _ in run(TWO, "one slow collector").lags) > 10


def drawn_from(world, tick):
    """The domain of a batch, as it is packed before the batch is taken, and what collectors may write meanwhile."""
    shares, pacer = world.schedule.shares, world.pacer
    for share, reach, finished, own in zip(shares, pacer.reach(tick), pacer.counted(tick), world.counters, strict=True):
        low, high = share.oldest(reach - 1), share.watermark(finished)
        yield share, low, high, share.watermark(own["granted"])


@pytest.mark.parametrize("name", NAMES)
def test_no_row_of_a_batch_can_be_overwritten_before_it_is_taken(name):
    full = 0
    for seed, schedule in enumerate(schedules()):

        def taking(world, tick):
            nonlocal full
            for share, low, high, written in drawn_from(world, tick):
                assert written - share.capacity <= low < high
                full += low > 0

        run(schedule, name, seed=seed, taking=taking)
    assert full > 100


def test_reach_is_what_can_be_granted_until_the_batch_is_taken():
    world = World(TWO, *kinds(0)["jitter"])
    before = {}

    def look(world):
        tick = world.seen.ticks + 1  # is packed next; until it is taken, grant(tick) is the last one given
        granted = [counters["granted"] for counters in world.counters]
        if min(granted) < 0 or tick > TWO.total_ticks:
            return
        reach = before.setdefault(tick, world.pacer.reach(tick))
        assert all(now <= most for now, most in zip(granted, reach, strict=True))

    world.run(look)
    world.free()
    assert len(before) == TWO.total_ticks


def test_a_debt_is_kept_dropped_or_capped_in_whole_updates():
    kept = replace(TWO, debt_rows=TWO.prefill)

    assert TWO.updates_until(TWO.total_ticks) == 360
    assert kept.updates_until(kept.total_ticks) == 400
    assert [kept.debt_ticks, kept.total_ticks, TWO.total_ticks] == [10, 100, 90]
    assert [kept.watermark(tick) for tick in (0, 10, 11)] == [40, 40, 44]
    capped = replace(TWO, debt_rows=10)
    assert capped.updates_until(capped.total_ticks) == 370
    assert capped.updates(1) == 6 == capped.max_updates  # what is left of a chunk comes with the first tick


def test_shares_are_even_and_add_up():
    odd = replace(TWO, capacity=101, preloaded=7)

    assert [share.capacity for share in odd.shares] == [51, 50]
    assert [share.preloaded for share in odd.shares] == [4, 3]
    assert [share.prefill for share in odd.shares] == [20, 20]
    assert odd.shares[0].watermark(3) == 20 + 3 * 4
    lockstep = replace(odd, ahead=None)
    for tick in range(6):
        assert sum(share.watermark(tick) for share in lockstep.shares) == lockstep.watermark(tick)
        assert lockstep.shares[1].updates_until(tick) == lockstep.updates_until(tick)
    assert {share.total_ticks for share in lockstep.shares} == {lockstep.total_ticks}


def test_envs_that_cannot_be_shared_evenly_are_refused_with_what_can():
    with pytest.raises(
        ConfigError, match=r"num_envs=6 cannot be shared evenly by num_collectors=4; it can by 1, 2, 3, 6"
    ):
        replace(TWO, num_envs=6, num_collectors=4)


def test_a_ring_that_a_collector_could_lap_is_refused():
    replace(TWO, capacity=48)
    with pytest.raises(ConfigError, match=r"smaller than 6 chunks of 8 rows .* use at least 48"):
        replace(TWO, capacity=47)


def test_a_run_that_goes_on_keeps_its_credit():
    counters = [Counters(COUNTERS) for _ in range(2)]
    for own, chunk in zip(counters, (7, 5), strict=True):
        own["granted"] = own["finished"] = chunk
    lines = [Line(own, NoBell(), 60.0, "collector") for own in counters]
    pacer = FreeRunning(TWO, lines, tick=10, counted=(6, 5))

    assert pacer.debt == 2
    assert pacer.counted(10) == (6, 5)
    pacer.grant(11)
    assert [own["granted"] for own in counters] == [8, 6]
    pacer.wait_finished(11, Waiter(Bell()))
    assert pacer.counted(11) == (7, 5)
    for own in counters:
        own.free()


def test_what_the_last_ticks_counted_is_known_while_the_next_batch_is_waited_for():
    counters = Counters(COUNTERS)
    pacer = FreeRunning(replace(TWO, num_collectors=1), [Line(counters, NoBell(), 60.0, "collector")])
    for tick in range(1, 9):
        counters["finished"] = tick + 1
        pacer.wait_finished(tick, Waiter(Bell()))
        assert [pacer.counted(t) for t in range(max(1, tick - 2), tick + 1)] == [
            (t + 1,) for t in range(max(1, tick - 2), tick + 1)
        ]
    counters.free()


def test_a_collector_that_hangs_is_found_although_the_others_go_on(monkeypatch):
    counters = [Counters(COUNTERS) for _ in range(2)]
    lines = [Line(own, NoBell(), 5.0, f"collector-{i} (pid {i})") for i, own in enumerate(counters)]
    now = [100.0]
    monkeypatch.setattr("unilab.pacing.waiting.time.monotonic", lambda: now[0])
    pacer = FreeRunning(TWO, lines)

    def go_on():
        for tick in range(1, 20):
            pacer.grant(tick)
            now[0] += 1.5
            counters[0]["finished"] = tick
            counters[0]["rounds"] += 1
            pacer.wait_finished(tick, Waiter(Bell()))

    with pytest.raises(
        WorkerDied, match=r"no data from collector-1 \(pid 1\) for \d s, while waiting for chunk 1"
    ) as died:
        go_on()
    assert 5 <= now[0] - 100 < 10
    assert died.value.worker.startswith("collector-1")
    for own in counters:
        own.free()


FREE = PacingConfig(pacing="free")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_policy_lag": 0}, "max_policy_lag=0 cannot be kept by collectors that run ahead; use --pacing lockstep"),
        ({"max_policy_lag": 2, "publish_interval": 4}, "publish_interval=4 and max_policy_lag=2 contradict each other"),
        ({"max_policy_lag": 2, "publish_interval": 3, "lag_action": "wait"}, "use --publish-interval 2 or less"),
        ({"lag_action": "drop"}, "lag_action=drop would have no effect without --max-policy-lag"),
        ({"max_unspent_chunks": 1, "num_collectors": 2}, "max_unspent_chunks=1 leaves some of 2 collectors"),
        ({"publish_interval": 0}, "publish_interval=0 must be at least 1"),
        ({"cold_start_debt": -1}, "cold_start_debt=-1 must not be negative"),
        ({"num_collectors": 0}, "num_collectors=0 must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused(changes, why):
    with pytest.raises(ConfigError) as refused:
        check_pacing(replace(FREE, **changes))
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"max_unspent_chunks": 3}, {"max_policy_lag": 2}, {"publish_interval": 2}, {"cold_start_debt": "keep"}],
)
def test_what_only_free_running_knows_is_refused_in_lockstep(change):
    with pytest.raises(ConfigError, match="would have no effect with pacing=lockstep; use --pacing free"):
        check_pacing(PacingConfig(**change))


def test_two_chunks_a_collector_may_be_ahead():
    assert replace(FREE, num_collectors=3).ahead == 6
    assert replace(FREE, max_unspent_chunks=9).ahead == 9
    assert PacingConfig().ahead is None

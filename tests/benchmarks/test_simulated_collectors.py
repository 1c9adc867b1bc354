"""The simulation of many collectors: what can be worked out by hand comes out, with either pacing."""

import random
from fractions import Fraction
from math import comb

import pytest
from collector_costs import COUNTS, Costs, Env, Parts, schedule_of
from pacing_world import World
from simulate_collectors import simulate, verdict

from unilab.pacing import Schedule

NONE = dict.fromkeys(COUNTS, 0.0)


def costs(**known):
    nothing = dict.fromkeys(("update", "publish", "own", "fetch", "round", "late", "wake"), 0.0)
    return Costs(**{**nothing, "books": NONE, "gather": NONE, **known})


def ticks_of(pacing, collect_s, learn_s, *, collectors=2, ticks=400, steps=1, wake_s=0.0):
    """When each batch was there."""
    free = pacing == "free"
    rows = steps * (1 if free else collectors)
    schedule = Schedule(
        num_envs=collectors, steps_per_tick=steps, learning_starts=collectors, total_steps=collectors + ticks * rows,
        utd=Fraction(1), capacity=10_000, num_collectors=collectors, ahead=2 * collectors if free else None,
    )  # fmt: skip
    starts = []
    world = World(schedule, collect_s, learn_s, wake_s=wake_s, taking=lambda world, tick: starts.append(world.now))
    world.run()
    world.free()
    assert len(starts) == ticks
    return starts


def test_in_lockstep_a_tick_takes_as_long_as_the_slowest_chunk_or_the_learner():
    for learn_s, period in ((1.0, 5.0), (8.0, 8.0)):
        starts = ticks_of("lockstep", lambda i: (2.0, 5.0)[i], lambda learn_s=learn_s: learn_s)
        assert (starts[-1] - starts[10]) / (len(starts) - 11) == pytest.approx(period)


def test_free_running_has_the_chunks_of_both_as_they_come():
    starts = ticks_of("free", lambda i: (2.0, 5.0)[i], lambda: 0.1)

    assert (starts[-1] - starts[10]) / (len(starts) - 11) == pytest.approx(1 / (1 / 2 + 1 / 5), rel=0.02)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_with_exponential_steps_lockstep_loses_what_the_slower_of_two_takes_longer(steps):
    """E max of two sums of k exponential times, over k, is 1 + C(2k, k) / 4^k: 1.5, 1.375, 1.196."""
    spans = {}
    for pacing, ticks in (("lockstep", 6_000), ("free", 12_000)):
        rng = random.Random(1)
        starts = ticks_of(
            pacing, lambda i, rng=rng: rng.gammavariate(steps, 1.0), lambda: 0.0, ticks=ticks, steps=steps
        )
        spans[pacing] = starts[-1] - starts[0]

    assert spans["lockstep"] / spans["free"] == pytest.approx(1 + comb(2 * steps, steps) / 4**steps, rel=0.03)


def test_a_wake_up_is_paid_for_on_both_sides_by_whoever_slept():
    starts = ticks_of("lockstep", lambda i: 5.0, lambda: 1.0, wake_s=0.25)

    assert (starts[-1] - starts[10]) / (len(starts) - 11) == pytest.approx(5.5)


def test_a_learner_that_is_full_is_found_with_the_part_that_fills_it():
    env = Env(4.0, False, utd=0.25)  # one update a chunk of four rows
    rows = [simulate(env, n, "free", costs(update=900.0, publish=100.0)) for n in COUNTS[:4]]

    assert [round(row["of_expected"], 2) for row in rows[:3]] == [1.0, 1.0, 1.0]
    assert rows[3]["env_steps_per_s"] == pytest.approx(4000, rel=0.02)
    assert [row["learner_wait"] for row in rows] == pytest.approx([0.75, 0.5, 0.0, 0.0], abs=0.02)
    assert verdict(rows).startswith("the learner is full with 4 (4,0")
    assert verdict(rows).endswith("90 % of it is updates")
    assert verdict(rows[:2]).startswith("not full with")


@pytest.mark.parametrize("pacing", ["lockstep", "free"])
@pytest.mark.parametrize("collectors", [1, 4])
def test_the_parts_that_are_timed_are_those_of_a_run(pacing, collectors):
    parts = Parts(schedule_of(Env(1.0, False), collectors, pacing, 20))
    for tick in range(1, 15):
        assert min(parts.tick(tick)) > 0
        assert parts.slots.packed(tick).rows == parts.schedule.updates(tick) * 64 if pacing == "free" else True
    parts.free()

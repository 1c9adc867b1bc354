"""Segments against a walk through each env's own steps, with episodes whose ends are known."""

import dataclasses

import numpy as np
import pytest
from numpy.random import SeedSequence
from test_n_step import ENVS, episodes, layout
from test_samplers import HIGH, LOW, chi_square

from unilab.envs.registry import EnvConfig, make_env
from unilab.replay import Ring, make_rows
from unilab.replay.priorities import Priorities
from unilab.replay.segment_sampler import SegmentSampler, find_ends

LAYOUT = layout(1)


def ring_of(steps, capacity):
    ring = Ring(capacity, LAYOUT)
    for number, step in enumerate(steps):
        ring.append(step.obs, step.action, step, number, step.repeat)
    return ring


def gathered(ring, numbers):
    rows = np.empty((*numbers.shape, ring.layout.width), np.float32)
    ring.gather(numbers.reshape(-1), rows.reshape(-1, ring.layout.width))
    return rows


def walked(steps, start, length):
    """Rounds of the segment that begins with this row, by a walk to the end of the episode or of the segment."""
    t, env = divmod(start, ENVS)
    rounds = [t]
    while not (steps[t].terminated[env] or steps[t].truncated[env]) and len(rounds) < length:
        t += 1
        rounds.append(t)
    return rounds, bool(steps[t].terminated[env])


def sampler(length=4, seed=7):
    return SegmentSampler(SeedSequence(seed), ENVS, length)


@pytest.mark.parametrize("length", [1, 2, 5, 9])
@pytest.mark.parametrize("capacity", [150, 100, 64])  # all rows fit; they do not, and rounds wrap within
def test_every_start_gives_the_steps_of_its_env_up_to_the_end_of_its_episode(length, capacity):
    steps = episodes(seed=length, ends=min(0.4, 1 / length))
    ring, made = ring_of(steps, capacity), sampler(length)
    low, high = ring.oldest, ring.cursor
    first, stop = made.starts(low, high)
    expected = [start for start in range(low, high) if start + (length - 1) * ENVS < high]
    assert list(range(first, stop)) == expected

    numbers = made.rows(np.arange(first, stop))
    rows = gathered(ring, numbers)
    ends = find_ends(rows, LAYOUT)
    kinds = set()
    for i, start in enumerate(range(first, stop)):
        rounds, terminated = walked(steps, start, length)
        count = len(rounds)
        assert numbers[i].tolist() == [start + ENVS * k for k in range(length)]
        assert ends.valid[i].tolist() == [k < count for k in range(length)]
        assert ends.last[i] == count - 1
        assert ends.terminated[i] == terminated
        for k, t in enumerate(rounds):
            assert rows[i, k, :2].tolist() == steps[t].obs["obs"][start % ENVS].tolist()
        kinds.add((count == length, terminated))
    short = {(False, False), (False, True), (True, False)}
    assert kinds >= ({(True, False), (True, True)} if length == 1 else short), "ends of every kind were there"


def test_both_flags_at_once_are_an_end_that_is_not_bootstrapped():
    steps = episodes(seed=0, rounds=4, ends=0.0)
    steps[1] = dataclasses.replace(steps[1], terminated=np.array([1, 0, 1], bool), truncated=np.array([1, 1, 0], bool))
    ends = find_ends(gathered(ring_of(steps, 12), sampler(2).rows(np.array([0, 1, 2, 3, 4, 5]))), LAYOUT)

    assert ends.valid.tolist() == [[True, True]] * 3 + [[True, False]] * 3
    assert ends.terminated.tolist() == [True, False, True] * 2


def test_a_row_that_stands_in_for_another_ends_a_segment_before_and_behind_it():
    steps = [
        dataclasses.replace(step, repeat=np.array([False, t == 2, False]))
        for t, step in enumerate(episodes(seed=1, rounds=6, ends=0.0))
    ]
    for t in (3, 4, 5):  # that env began anew
        for groups in (steps[t].obs, steps[t].next_obs):
            groups["obs"][1, 1] += 100
    ends = find_ends(gathered(ring_of(steps, 18), sampler(4).rows(np.arange(9))), LAYOUT)

    assert ends.last.reshape(3, ENVS).tolist() == [[3, 1, 3], [3, 0, 3], [3, 0, 3]]
    assert not ends.terminated.any()


def test_envs_that_began_anew_without_a_flag_end_a_segment():
    steps = episodes(seed=2, rounds=3, ends=0.0) + episodes(seed=5, rounds=3, ends=0.0)
    assert (steps[2].next_obs["obs"] != steps[3].obs["obs"]).any(1).all()
    ends = find_ends(gathered(ring_of(steps, 18), sampler(4).rows(np.arange(9))), LAYOUT)

    assert ends.last.reshape(3, ENVS).tolist() == [[2] * 3, [1] * 3, [0] * 3]


@pytest.mark.parametrize("ends", ["mixed", "terminated", "truncated"])
def test_an_env_of_ours_breaks_off_where_its_flags_say_and_nowhere_else(ends):
    env = make_env(
        EnvConfig(env="unilab/Toy-v0", num_envs=ENVS, env_kwargs={"ends": ends, "episode_length": 7}), seed=0
    )
    shape = dataclasses.replace(LAYOUT, obs_dim=env.spec.obs_dim, action_dim=env.spec.action_dim, critic_dim=0)
    ring, obs = Ring(300, shape), env.reset()
    for _ in range(100):
        step = env.step(np.zeros((ENVS, env.spec.action_dim), np.float32))
        ring.append(obs, np.zeros((ENVS, env.spec.action_dim), np.float32), step, 0)
        obs = step.obs
    rows = gathered(ring, sampler(20).rows(np.arange(*sampler(20).starts(0, 300))))

    over = (rows[:, :, shape.columns["terminated"].start] + rows[:, :, shape.columns["truncated"].start]) != 0
    expected = np.cumsum(over, axis=1) - over == 0
    assert not over.all(1).any()
    assert np.array_equal(find_ends(rows, shape).valid, expected)


def test_a_draw_depends_on_seed_tick_and_domain_alone():
    one, other = sampler(), sampler()
    first = {tick: one.draw(tick, 5, 90, 8).tolist() for tick in (1, 2, 3)}

    assert first == {tick: other.draw(tick, 5, 90, 8).tolist() for tick in (3, 1, 2)}
    assert len({str(draw) for draw in first.values()}) == 3
    assert sampler(seed=8).draw(1, 5, 90, 8).tolist() != first[1]


def test_starts_are_uniform_and_segments_stay_inside():
    made, low = sampler(length=4), 1000
    high = low + 100 + 3 * ENVS  # a hundred starts
    numbers = np.concatenate([made.draw(tick, low, high, 40) for tick in range(500)])

    assert numbers.shape == (20_000, 4)
    assert numbers.dtype == np.int64
    assert (np.diff(numbers, axis=1) == ENVS).all()
    assert (numbers.min(), numbers.max()) == (low, high - 1)
    assert LOW < chi_square(np.bincount(numbers[:, 0] - low, minlength=100)) < HIGH


def test_by_priority_of_the_first_row_a_segment_is_drawn_as_often_as_its_priority_says():
    made, low, high = sampler(length=4), 1000, 1000 + 100 + 3 * ENVS
    priorities, starts = Priorities(capacity=128, alpha=1.0), np.arange(*made.starts(low, high))
    priorities.add(starts % 128, starts)
    priorities.update(starts % 128, starts, np.where(starts < 1050, 1.0, 3.0))
    rng = np.random.default_rng(0)
    _, serials, weights = priorities.draw(rng.random(4001), 1.0)
    numbers = made.rows(serials)

    assert (numbers >= low).all()
    assert (numbers < high).all()
    assert np.bincount(numbers[:, 0] // 1050).tolist() == pytest.approx([1000, 3000], abs=2)
    assert weights[serials < 1050] == pytest.approx(1.0)
    assert weights[serials >= 1050] == pytest.approx(1 / 3, rel=1e-5)


def test_a_domain_shorter_than_a_segment_is_refused():
    made = sampler(length=4)

    assert made.starts(10, 10 + 3 * ENVS) == (10, 10)
    with pytest.raises(ValueError, match=r"rows \[10, 19\) hold no segment"):
        made.draw(1, 10, 10 + 3 * ENVS, 1)
    assert made.draw(1, 10, 11 + 3 * ENVS, 1).tolist() == [[10, 13, 16, 19]]
    with pytest.raises(ValueError, match="1 or more"):
        SegmentSampler(SeedSequence(7), ENVS, 0)


def test_rows_of_several_env_steps_are_refused():
    ring = Ring(60, layout(3))
    rows = make_rows(ring, ENVS, 0.9)
    for number, step in enumerate(episodes(seed=0, rounds=8)):
        rows.append(step.obs, step.action, step, number)

    with pytest.raises(ValueError, match="n_step=3 overlap"):
        find_ends(gathered(ring, sampler(2).rows(np.arange(6))), layout(3))

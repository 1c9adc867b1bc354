"""Rows of n-step returns against brute force over episodes of random lengths and ends."""

from dataclasses import dataclass

import numpy as np
import pytest

from unilab.replay import Ring, RowLayout, make_rows

GAMMA = 0.9
ENVS, ROUNDS = 3, 50


@dataclass
class Step:
    """One round; ``obs`` and ``action`` are what it began with."""

    obs: dict
    action: np.ndarray
    reward: np.ndarray
    next_obs: dict
    terminated: np.ndarray
    truncated: np.ndarray
    repeat: np.ndarray | None = None


def layout(n_step):
    return RowLayout(obs_dim=2, action_dim=1, critic_dim=1, n_step=n_step)


def episodes(seed, rounds=ROUNDS, ends=0.3):
    """Observations say env, and a tick that is 1 more in the successor; the next episode begins 100 later."""
    rng = np.random.default_rng(seed)
    tick = rng.integers(0, 50, ENVS).astype(np.float32)  # staggered first episodes
    steps = []
    for _ in range(rounds):
        obs, reward = groups(tick), rng.normal(size=ENVS).astype(np.float32)
        terminated, truncated = rng.random((2, ENVS)) < ends / 2  # both at once sometimes
        tick = tick + 1
        steps.append(Step(obs, rng.random((ENVS, 1)).astype(np.float32), reward, groups(tick), terminated, truncated))
        tick = np.where(terminated | truncated, tick + 100, tick)
    return steps


def groups(tick):
    env = np.arange(ENVS)
    return {
        "obs": np.stack([env, tick], axis=1).astype(np.float32),
        "critic": (-tick[:, None]).astype(np.float32),
    }


def expected(steps, n_step):
    """[rows, width] of every window that is complete, one after the other; a step that is repeated is a NaN row."""
    rows = []
    for t in range(len(steps) - n_step + 1):
        for i in range(ENVS):
            total, last = 0.0, t
            for k in range(n_step):
                total += GAMMA**k * float(steps[t + k].reward[i])
                last = t + k
                dropped_next = t + k + 1 < len(steps) and bad(steps[t + k + 1], i)
                if steps[last].terminated[i] or steps[last].truncated[i] or dropped_next:
                    break
            first, end = steps[t], steps[last]
            row = [*first.obs["obs"][i], *first.action[i], np.float32(total), *end.next_obs["obs"][i]]
            row += [end.terminated[i], end.truncated[i], *first.obs["critic"][i], *end.next_obs["critic"][i]]
            row += [last - t + 1] if n_step > 1 else []
            rows.append([np.nan] * len(row) if bad(first, i) else row)
    return np.array(rows, np.float32)


def bad(step, i):
    return step.repeat is not None and step.repeat[i]


def take(rows, steps, first=0):
    """Append rounds, whose number is their version."""
    for number, step in enumerate(steps, start=first):
        rows.append(step.obs, step.action, step, number, step.repeat)


def stored(ring):
    """All rows that the ring holds, and their versions."""
    rows = np.concatenate([np.empty((0, ring.layout.width), np.float32), *ring.read(ring.oldest, ring.cursor)])
    return rows, ring.versions(ring.oldest, ring.cursor)


@pytest.fixture
def ring_of():
    rings = []

    def make(n_step, capacity=10_000):
        rings.append(Ring(capacity, layout(n_step)))
        return rings[-1]

    yield make
    for ring in rings:
        ring.free()


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(10))
def test_every_row_is_the_window_that_brute_force_finds(ring_of, n_step, seed):
    steps, ring = episodes(seed), ring_of(n_step)
    take(make_rows(ring, ENVS, GAMMA), steps)
    rows, versions = stored(ring)

    assert np.array_equal(rows, expected(steps, n_step))
    assert versions.tolist() == [t for t in range(ROUNDS - n_step + 1) for _ in range(ENVS)]


@pytest.mark.parametrize("ends", [0.0, 1.0, 2.0])
def test_endless_episodes_and_such_of_one_step_are_windows_too(ring_of, ends):
    steps, ring = episodes(0, ends=ends), ring_of(3)
    take(make_rows(ring, ENVS, GAMMA), steps)
    rows = stored(ring)[0]

    assert np.array_equal(rows, expected(steps, 3))
    lengths = set(rows[:, -1].tolist())
    assert lengths == {0.0: {3}, 1.0: {1, 2, 3}, 2.0: {1}}[ends]


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("capacity", [3, 4, 7, 64])
def test_a_ring_that_wraps_keeps_the_newest_rows(ring_of, n_step, capacity):
    steps, ring = episodes(1), ring_of(n_step, capacity)
    take(make_rows(ring, ENVS, GAMMA), steps)

    assert ring.cursor == (ROUNDS - n_step + 1) * ENVS
    assert np.array_equal(stored(ring)[0], expected(steps, n_step)[-capacity:])


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_each_round_gives_one_row_per_env_but_for_the_first(ring_of, n_step):
    ring = ring_of(n_step)
    rows, late = make_rows(ring, ENVS, GAMMA), n_step - 1
    for number, step in enumerate(episodes(2)):
        assert rows.missing == max(0, late - number)
        rows.append(step.obs, step.action, step, 0)
        assert ring.cursor == ENVS * max(0, number + 1 - late)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("stop", range(12))
def test_a_state_that_was_saved_in_the_middle_of_windows_goes_on_to_the_same_rows(ring_of, n_step, stop):
    steps, ring = episodes(3, rounds=20), ring_of(n_step)
    before = make_rows(ring, ENVS, GAMMA)
    take(before, steps[:stop])
    state = before.state_dict()
    take(before, steps[stop : stop + 1])  # what comes later changes nothing of what was saved
    ring.rewind(max(0, stop - n_step + 1) * ENVS)
    after = make_rows(ring, ENVS, GAMMA)
    after.load_state_dict(state, continues=True)
    take(after, steps[stop:], first=stop)
    rows, versions = stored(ring)

    assert np.array_equal(rows, expected(steps, n_step))
    assert versions.tolist() == [t for t in range(20 - n_step + 1) for _ in range(ENVS)]


@pytest.mark.parametrize("n_step", [2, 3, 5])
@pytest.mark.parametrize("stop", range(8))
def test_where_new_episodes_begin_open_windows_are_closed_and_none_is_lost(ring_of, n_step, stop):
    old, new, ring = episodes(4, rounds=stop), episodes(5, rounds=12), ring_of(n_step)
    before = make_rows(ring, ENVS, GAMMA)
    take(before, old)
    after = make_rows(ring, ENVS, GAMMA)
    after.load_state_dict(before.state_dict(), continues=False)
    take(after, new)
    rows, columns = stored(ring)[0], layout(n_step).columns

    assert len(rows) == (stop + 12 - n_step + 1) * ENVS
    ticks, after_ticks = rows[:, columns["obs"]][:, 1], rows[:, columns["next_obs"]][:, 1]
    assert np.array_equal(after_ticks - ticks, rows[:, columns["steps"].start])  # all within one episode
    if stop:
        last = rows[: stop * ENVS][-ENVS:] if stop * ENVS <= len(rows) else rows[:0]
        ended = old[-1].terminated | old[-1].truncated
        assert (last[~ended, columns["steps"].start] == 1).all()
        assert not last[~ended, columns["truncated"].start].any()


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_a_step_that_is_skipped_gets_into_a_row(ring_of, n_step, seed):
    steps, rng = episodes(seed), np.random.default_rng(seed)
    for step in steps[1:]:
        step.repeat = rng.random(ENVS) < 0.1
        step.reward[step.repeat] = 0.0  # as ``envs.bad_values`` leaves it
        step.terminated[step.repeat] = step.truncated[step.repeat] = False
        for name in step.next_obs:
            step.next_obs[name][step.repeat] = np.nan
    ring = ring_of(n_step)
    take(make_rows(ring, ENVS, GAMMA), steps)
    rows, (oracle, versions) = expected(steps, n_step), stored(ring)
    for number in range(ENVS, len(rows)):
        if np.isnan(rows[number]).any():
            rows[number] = rows[number - ENVS]
            assert versions[number] == versions[number - ENVS]

    assert np.isfinite(oracle).all()
    assert np.array_equal(rows, oracle)


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_first_steps_have_none_before_them_that_could_be_repeated(ring_of, n_step):
    rows, (first, second) = make_rows(ring_of(n_step), ENVS, GAMMA), episodes(6, rounds=2)

    assert not rows.can_repeat
    rows.append(first.obs, first.action, first, 0)
    assert rows.can_repeat
    second.repeat = np.array([True, False, False])
    rows.append(second.obs, second.action, second, 1, second.repeat)


def test_the_sum_is_rounded_once_and_not_at_each_step(ring_of):
    steps, ring = episodes(7, rounds=3, ends=0.0), ring_of(3)
    for step, reward in zip(steps, (2.0**24, 1.0, 1.0), strict=True):
        step.reward[:] = reward
    take(make_rows(ring, ENVS, 1.0), steps)
    summed = stored(ring)[0][:, ring.layout.columns["reward"].start]

    assert summed.tolist() == [2.0**24 + 2] * ENVS  # in float32, 2^24 + 1 + 1 stays 2^24


def test_a_state_of_another_shape_is_refused(ring_of):
    saved = make_rows(ring_of(5), ENVS, GAMMA)
    take(saved, episodes(8, rounds=9))
    with pytest.raises(ValueError, match="n-step state"):
        make_rows(ring_of(3), ENVS, GAMMA).load_state_dict(saved.state_dict(), continues=True)
    with pytest.raises(ValueError, match="n-step state"):
        make_rows(ring_of(5), ENVS + 1, GAMMA).load_state_dict(saved.state_dict(), continues=True)


def test_a_state_of_a_run_that_has_just_begun_holds_what_there_is(ring_of):
    rows = make_rows(ring_of(5), ENVS, GAMMA)
    take(rows, episodes(9, rounds=2), first=70)

    assert rows.state_dict()["versions"].tolist() == [[70] * ENVS, [71] * ENVS]
    assert make_rows(ring_of(1), ENVS, GAMMA).state_dict() == {}

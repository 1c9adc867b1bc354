"""What the ring gives back is what one env did, in order: the rules of cases a02 and a03."""

from dataclasses import dataclass

import numpy as np
import pytest

from unilab.replay import Ring, RowLayout, UniformSampler, pack

CAPACITY = 64
EPISODE = 7
PUSHES = [10, 63, 64, 65, 128, 500]


@dataclass
class Step:
    """An env step: ``obs`` is what the policy acts on next, ``next_obs`` the true successor."""

    obs: dict
    next_obs: dict
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class TaggedEnvs:
    """Case a02: observations are (env tag, tick). A step adds 1 to the tick, a reset starts a thousand.

    The reward is the tick of the state acted in; every episode is cut off after 7 steps.
    """

    layout = RowLayout(obs_dim=2, action_dim=1)

    def __init__(self, num_envs):
        self.tags = np.arange(1, num_envs + 1)
        self.ticks = 1000 + np.arange(num_envs)  # envs are out of phase, so that episodes end in different rounds

    def reset(self):
        return self._obs()

    def step(self):
        reward = self.ticks.astype(np.float32)
        self.ticks = self.ticks + 1
        ended = self.ticks % 1000 == EPISODE
        next_obs = self._obs()
        self.ticks = np.where(ended, self.ticks // 1000 * 1000 + 1000, self.ticks)
        return Step(self._obs(), next_obs, reward, np.zeros_like(ended), ended)

    def _obs(self):
        return {"obs": np.stack([self.tags, self.ticks], axis=1).astype(np.float32)}


def bad_rows(rows):
    """The judge of case a02: numbers of the rows that break the rule."""
    c = TaggedEnvs.layout.columns
    obs, next_obs = rows[:, c["obs"]].astype(np.float64), rows[:, c["next_obs"]].astype(np.float64)
    ok = (obs[:, 0] >= 1) & (next_obs[:, 0] == obs[:, 0]) & (next_obs[:, 1] == obs[:, 1] + 1)
    ok &= (rows[:, c["reward"].start] == obs[:, 1]) & (rows[:, c["terminated"].start] == 0)
    ok &= obs[:, 1] % 1000 <= EPISODE - 1
    ok &= rows[:, c["truncated"].start] == (next_obs[:, 1] % 1000 == EPISODE)
    return np.flatnonzero(~ok).tolist()


def collect(envs, ring, obs, rounds):
    """The collector's loop, without a policy."""
    action = np.zeros((len(envs.tags), 1), np.float32)
    for _ in range(rounds):
        step = envs.step()
        ring.append(obs, action, step, policy_version=0)
        obs = step.obs
    return obs


def sampleable(ring):
    numbers = np.arange(max(0, ring.cursor - ring.capacity), ring.cursor)
    rows = np.empty((len(numbers), ring.layout.width), np.float32)
    ring.gather(numbers, rows)
    return rows


@pytest.fixture
def ring():
    ring = Ring(CAPACITY, TaggedEnvs.layout)
    yield ring
    ring.free()


@pytest.mark.parametrize("pushes", PUSHES)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_every_row_that_can_be_sampled_is_a_transition_of_one_env(ring, num_envs, pushes):
    envs = TaggedEnvs(num_envs)
    collect(envs, ring, envs.reset(), pushes)
    rows = sampleable(ring)

    assert ring.cursor == pushes * num_envs
    assert len(rows) == min(CAPACITY, pushes * num_envs)
    assert bad_rows(rows) == []


@pytest.mark.parametrize("pushes", PUSHES)
def test_the_newest_row_is_there_and_none_is_older_than_the_capacity(ring, pushes):
    envs, kept = TaggedEnvs(3), []
    obs = envs.reset()
    for _ in range(pushes):
        kept.append(obs["obs"])
        obs = collect(envs, ring, obs, 1)
    all_obs = np.concatenate(kept)  # every state acted in, in order of appending

    assert np.array_equal(sampleable(ring)[:, :2], all_obs[-CAPACITY:])


def test_the_judge_sees_a_reset_observation_stored_as_the_successor(ring):
    envs = TaggedEnvs(1)
    obs = envs.reset()
    for _ in range(10):
        step = envs.step()
        step.next_obs = step.obs  # the classic
        ring.append(obs, np.zeros((1, 1), np.float32), step, policy_version=0)
        obs = step.obs

    assert bad_rows(sampleable(ring)) == [6]


def test_the_judge_sees_an_unwritten_row():
    assert bad_rows(np.zeros((1, TaggedEnvs.layout.width), np.float32)) == [0]
    assert bad_rows(np.full((1, TaggedEnvs.layout.width), np.nan, np.float32)) == [0]


@pytest.mark.parametrize("pushes", [64, 65, 500])
def test_packed_batches_keep_the_rule_and_reach_both_ends_of_the_domain(ring, pushes):
    envs = TaggedEnvs(3)
    collect(envs, ring, envs.reset(), pushes)
    low, high = max(0, ring.cursor - CAPACITY), ring.cursor
    out = np.empty((4096, ring.layout.width), np.float32)

    pack([ring], UniformSampler(np.random.SeedSequence(3)), out, tick=1, domain=[(low, high)])

    assert bad_rows(out) == []
    assert np.array_equal(np.unique(out, axis=0), np.unique(sampleable(ring), axis=0))


def test_an_env_that_goes_on_writing_into_its_array_changes_no_stored_row(ring):
    """Case a03: obs and next_obs differ by exactly 1 in every row; the reward is the successor's value."""
    buffer = np.zeros((3, 2), np.float32)
    flags, action = np.zeros(3, np.bool_), np.zeros((3, 1), np.float32)
    obs = buffer.copy()  # an adapter copies what it keeps over a step; all else is the env's own memory
    for _ in range(500):
        buffer += 1
        ring.append({"obs": obs}, action, Step({}, {"obs": buffer}, buffer[:, 0], flags, flags), policy_version=0)
        obs = buffer.copy()
    rows, c = sampleable(ring), TaggedEnvs.layout.columns

    assert (rows[:, c["next_obs"]] - rows[:, c["obs"]] == 1).all()
    assert np.array_equal(rows[:, c["reward"].start], rows[:, c["next_obs"]][:, 0])
    # 1,500 rows in rounds of 3: the oldest of the 64 is the last of round 478 (values count from 0)
    assert rows[:, 0].tolist() == [row // 3 for row in range(1436, 1500)]

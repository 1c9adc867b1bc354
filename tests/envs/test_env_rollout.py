import numpy as np
import pytest

from unilab.envs.base import EnvStep
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.rollout import EpisodeStats, evaluate
from unilab.errors import NonFinite

NAN = np.nan


def toy(num_envs, **kwargs):
    return make_env(EnvConfig(env="unilab/Toy-v0", num_envs=num_envs, env_kwargs=kwargs), seed=0)


def still(obs):
    return np.zeros((len(obs["obs"]), 1), np.float32)


def step(reward, terminated=(0, 0), truncated=(0, 0), **metrics):
    return EnvStep(
        obs={},
        reward=np.float32(reward),
        terminated=np.array(terminated, bool),
        truncated=np.array(truncated, bool),
        next_obs={},
        metrics={name: np.float32(values) for name, values in metrics.items()},
    )


def test_an_episode_is_one_row_of_env_return_length_and_flags():
    stats = EpisodeStats(2, (), first_index=30)

    assert stats.columns == ("env", "return", "length", "terminated", "truncated")
    assert stats.add(step([1, 10])).shape == (0, 5)
    assert stats.add(step([2, 20], terminated=(0, 1))).tolist() == [[31, 30, 2, 1, 0]]
    assert stats.add(step([3, 40], terminated=(1, 1), truncated=(1, 0))).tolist() == [
        [30, 6, 3, 1, 1],
        [31, 40, 1, 1, 0],
    ]


def test_returns_are_summed_in_float64():
    stats = EpisodeStats(1, ())
    stats.add(step([2.0**24], (0,), (0,)))
    stats.add(step([1], (0,), (0,)))

    assert stats.add(step([1], (1,), (0,)))[0, 1] == 2**24 + 2


def test_a_metric_is_its_mean_without_nan_and_success_its_last_value():
    stats = EpisodeStats(2, ("is_success", "speed"))
    stats.add(step([0, 0], is_success=[0, 1], speed=[1, NAN]))
    stats.add(step([0, 0], is_success=[1, 0], speed=[NAN, NAN]))
    rows = stats.add(step([0, 0], (1, 1), is_success=[NAN, 0], speed=[4, NAN]))

    np.testing.assert_array_equal(rows[:, 5:], [[1, 2.5], [0, NAN]])
    rows = stats.add(step([0, 0], (1, 0), is_success=[NAN, 0], speed=[7, 7]))
    np.testing.assert_array_equal(rows[:, 5:], [[NAN, 7]])


def test_running_episodes_can_be_saved_and_continued():
    one, other = EpisodeStats(2, ("a",)), EpisodeStats(2, ("a",))
    one.add(step([1, 2], a=[3, 4]))
    other.load_state_dict(one.state_dict())

    assert other.add(step([1, 2], (1, 1), a=[5, 6])).tolist() == [[0, 2, 2, 1, 0, 4], [1, 4, 2, 1, 0, 5]]
    with pytest.raises(ValueError, match="has shape"):
        EpisodeStats(3, ("a",)).load_state_dict(one.state_dict())


def test_every_env_plays_its_share_however_long_its_episodes_are():
    # Episodes of env i last 2 + 10 i steps; counting whichever ends first would take env 0's only.
    results = evaluate(toy(3, episode_length=2, length_step=10), still, episodes=7)

    assert results.lengths.tolist() == [2, 2, 2, 12, 12, 22, 22]
    assert results.returns[:2].tolist() == [1000 + 1001, 2000 + 2001]
    assert (results.returns.dtype, results.lengths.dtype) == (np.float64, np.int64)


def test_fewer_episodes_than_envs_are_played_by_the_first_envs():
    assert evaluate(toy(4, episode_length=2, length_step=1), still, episodes=2).lengths.tolist() == [2, 3]


def test_evaluation_metrics_are_means_over_episodes():
    results = evaluate(toy(3, episode_length=1, ends="mixed"), still, episodes=3)

    assert results.metrics["is_success"] == pytest.approx(2 / 3)


def test_the_policy_acts_on_the_reset_observation_never_on_a_terminal_one():
    seen = []

    def act(obs):
        seen.append(obs["obs"][:, 2].tolist())
        return still(obs)

    evaluate(toy(1, episode_length=3), act, episodes=2)

    assert seen == [[0], [1], [2], [0], [1], [2]]


def test_an_evaluation_of_no_episode_is_refused_and_a_nan_is_named():
    with pytest.raises(ValueError, match="episodes=0"):
        evaluate(toy(1), still, 0)
    with pytest.raises(NonFinite, match=r"reward = nan .* step 2"):
        evaluate(toy(1, bad_at=2, bad_in="reward"), still, 1)

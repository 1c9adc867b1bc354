"""Rolling means of finished episodes, by hand."""

from unilab.telemetry.episodes import Episode, EpisodeWindow


def episode(reward_sum, length=10, terminated=False, truncated=False, **metrics):
    return Episode(reward_sum=reward_sum, length=length, terminated=terminated, truncated=truncated, metrics=metrics)


def test_there_are_no_scalars_before_an_episode_has_ended():
    window = EpisodeWindow()

    assert window.scalars() == {}
    assert (window.total, window.best) == (0, None)


def test_means_and_rates_are_over_the_window():
    window = EpisodeWindow(size=2)
    window.add(episode(1000.0, length=1))  # leaves
    window.add(episode(1.0, length=10, terminated=True))
    window.add(episode(4.0, length=21, terminated=True, truncated=True))

    assert window.scalars() == {
        "rollout/ep_rew_mean": 2.5,
        "rollout/ep_len_mean": 15.5,
        "rollout/terminated_rate": 1.0,
        "rollout/truncated_rate": 0.5,
    }
    assert window.total == 3


def test_a_metric_is_averaged_over_the_episodes_that_carry_it():
    window = EpisodeWindow(size=2)
    window.add(episode(0.0, gone=5.0))
    window.add(episode(0.0, success=1.0))
    window.add(episode(0.0, success=0.0, height=0.25))

    scalars = window.scalars()
    assert scalars["rollout/success_rate"] == 0.5
    assert scalars["rollout/height"] == 0.25
    assert "rollout/gone" not in scalars


def test_the_best_mean_is_that_of_full_windows_once_there_is_one():
    window = EpisodeWindow(size=2)
    best = []
    for reward_sum in (100.0, 0.0, 10.0, 30.0, 0.0):  # full windows: 50, 5, 20, 15
        window.add(episode(reward_sum))
        best.append(window.best)

    assert best == [100.0, 50.0, 50.0, 50.0, 50.0]
    window.add(episode(120.0))  # 60
    assert window.best == 60.0


def test_a_window_continues_from_its_state():
    window = EpisodeWindow(size=2)
    for reward_sum in (8.0, 2.0, 1.0):
        window.add(episode(reward_sum, success=1.0))
    again = EpisodeWindow(size=2)
    again.load_state_dict(window.state_dict())

    for each in (window, again):
        each.add(episode(4.0))
    assert again.scalars() == window.scalars()
    assert again.scalars()["rollout/ep_rew_mean"] == 2.5
    assert (again.total, again.best) == (4, 5.0) == (window.total, window.best)


def test_a_metric_does_not_stand_in_for_what_is_measured_here():
    window = EpisodeWindow(size=2)
    window.add(episode(-3.0, ep_rew_mean=77.0, ep_len_mean=1e6, terminated_rate=9.0, reward_per_step=5.0))

    scalars = window.scalars()
    assert scalars["rollout/ep_rew_mean"] == -3.0
    assert scalars["rollout/info_ep_rew_mean"] == 77.0
    assert scalars["rollout/ep_len_mean"] < 1e6
    assert scalars["rollout/terminated_rate"] <= 1.0
    assert scalars["rollout/info_reward_per_step"] == 5.0
    assert "rollout/reward_per_step" not in scalars

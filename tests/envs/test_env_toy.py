import pickle
import time

import numpy as np
import pytest

from unilab.envs.finite import check_finite
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import EnvError, NonFinite


def toy(num_envs=2, **kwargs):
    return make_env(EnvConfig(env="unilab/Toy-v0", num_envs=num_envs, env_kwargs=kwargs), seed=0, first_index=10)


def zeros(env):
    return np.zeros((env.num_envs, env.spec.action_dim), np.float32)


def test_a_row_says_env_tick_and_step_of_the_episode():
    env = toy(obs_dim=4, episode_length=2)

    assert env.reset()["obs"].tolist() == [[10, 1000, 0, 1003], [11, 1000, 0, 1003]]
    step = env.step(zeros(env))
    assert step.obs["obs"].tolist() == [[10, 1001, 1, 1004], [11, 1001, 1, 1004]]
    assert step.reward.tolist() == [1000, 1000]
    step = env.step(zeros(env))
    assert step.next_obs["obs"].tolist() == [[10, 1002, 2, 1005], [11, 1002, 2, 1005]]
    assert step.obs["obs"].tolist() == [[10, 2000, 0, 2003], [11, 2000, 0, 2003]]
    assert step.truncated.all()
    assert not step.terminated.any()


def test_mixed_endings_take_turns_over_envs_and_episodes():
    env = toy(num_envs=3, episode_length=1, ends="mixed")
    env.reset()
    steps = [env.step(zeros(env)) for _ in range(2)]

    # env 10: turn 1, 2; env 11: turn 2, 0; env 12: turn 0, 1 (0 terminated, 1 truncated, 2 both)
    assert [step.terminated.tolist() for step in steps] == [[False, True, True], [True, True, False]]
    assert [step.truncated.tolist() for step in steps] == [[True, True, False], [True, False, True]]
    assert steps[0].metrics["is_success"].tolist() == [0, 1, 1]


def test_ticks_start_over_while_they_are_exact_in_float32():
    env = toy(num_envs=1, episode_length=10**9)
    env.reset()
    state = env.state()
    state["tick"][:] = 15_999_999
    env.restore(state)

    step = env.step(zeros(env))

    assert step.reward.tolist() == [15_999_999]
    assert step.next_obs["obs"][0, 1] == 0


def test_a_saved_state_continues_exactly_also_through_a_pickle():
    one, other = (
        toy(ends="mixed", length_step=1, episode_length=3),
        toy(ends="mixed", length_step=1, episode_length=3),
    )
    one.reset()
    for _ in range(10):
        last = one.step(zeros(one))
    copy = pickle.loads(pickle.dumps(one))

    resumed = other.restore(one.state())
    np.testing.assert_array_equal(resumed["obs"], last.obs["obs"])
    for _ in range(20):
        steps = [env.step(zeros(one)) for env in (one, other, copy)]
        for step in steps[1:]:
            np.testing.assert_array_equal(step.next_obs["obs"], steps[0].next_obs["obs"])
            np.testing.assert_array_equal(step.obs["obs"], steps[0].obs["obs"])
            np.testing.assert_array_equal(step.terminated, steps[0].terminated)


def test_a_state_of_another_number_of_envs_is_refused():
    with pytest.raises(EnvError, match="state is of 2 envs, these are 3"):
        toy(3).restore(toy(2).state())


def test_it_raises_when_told_to():
    env = toy(raise_at=2)
    env.reset()
    env.step(zeros(env))

    with pytest.raises(ValueError, match="raises at step 2") as error:
        env.step(zeros(env))
    assert error.value.__notes__ == ["env index 10, step 2"]


@pytest.mark.parametrize(("where", "name"), [("obs", r"obs\[1\] = nan"), ("reward", "reward = nan")])
def test_it_returns_a_bad_value_when_told_to(where, name):
    env = toy(bad_at=2, bad_in=where)
    env.reset()
    check_finite(env.step(zeros(env)), 10, np.array([1, 1]))

    with pytest.raises(NonFinite, match=name):
        check_finite(env.step(zeros(env)), 10, np.array([2, 2]))


@pytest.mark.parametrize("busy", [True, False])
def test_a_step_takes_at_least_the_given_time(busy):
    env = toy(step_ms=5.0, busy=busy)
    env.reset()

    started = time.perf_counter()
    env.step(zeros(env))
    assert time.perf_counter() - started >= 5e-3


def slept(monkeypatch, seed, steps=2_000):
    """Seconds that each step sleeps; nobody waits for them."""
    seconds, now = [], [0.0]

    def sleep(s):
        seconds.append(s)
        now[0] += s

    monkeypatch.setattr("unilab.envs.toy.time.sleep", sleep)
    monkeypatch.setattr("unilab.envs.toy.time.perf_counter", lambda: now[0])
    cfg = EnvConfig(env="unilab/Toy-v0", num_envs=2, env_kwargs={"step_ms": 5.0, "jitter": True})
    env = make_env(cfg, seed=seed)
    env.reset()
    for _ in range(steps):
        env.step(zeros(env))
    return np.array(seconds)


def test_with_jitter_steps_take_exponentially_distributed_times(monkeypatch):
    seconds = slept(monkeypatch, seed=0)

    # Mean and standard deviation are both 5 ms; of 2,000 draws within 10 % (four standard errors), the tail beyond
    # three means is exp(-3) = 5 %.
    assert seconds.mean() == pytest.approx(5e-3, rel=0.1)
    assert seconds.std() == pytest.approx(5e-3, rel=0.1)
    assert 0.03 < (seconds > 15e-3).mean() < 0.07


def test_the_times_of_a_seed_repeat_and_those_of_another_differ(monkeypatch):
    first = slept(monkeypatch, seed=0, steps=50)

    np.testing.assert_array_equal(first, slept(monkeypatch, seed=0, steps=50))
    assert not np.isin(slept(monkeypatch, seed=1, steps=50), first).any()


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"jitter": True}, "jitter=True has no effect without step_ms"),
        ({"jitter": 1, "step_ms": 1.0}, "jitter=1 must be of type bool"),
        ({"episode_lenght": 3}, "unknown env_kwargs key 'episode_lenght'; did you mean 'episode_length'"),
        ({"episode_length": 0}, "episode_length=0 must be at least 1"),
        ({"episode_length": "7"}, "episode_length='7' must be of type int"),
        ({"ends": "never"}, "ends='never' must be one of terminated"),
        ({"obs_dim": 2}, "obs_dim=2 must be at least 3"),
    ],
)
def test_wrong_kwargs_are_refused_by_name(kwargs, words):
    with pytest.raises(EnvError, match=words):
        toy(**kwargs)


@pytest.mark.parametrize("option", [{"critic_keys": ("a",)}, {"action_bound": 1.0}, {"vec": "async"}])
def test_an_option_without_effect_is_refused(option):
    with pytest.raises(EnvError, match="no effect"):
        probe(EnvConfig(env="unilab/Toy-v0", **option))


def test_actions_of_another_shape_are_our_own_bug():
    env = toy()
    env.reset()

    with pytest.raises(ValueError, match="actions have shape"):
        env.step(np.zeros((2, 2), np.float32))

"""What the examination says about an env, one fault each; in this process, without a child."""

import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from unilab.doctor.env_probe import examine_env
from unilab.doctor.phases import phase_of_dump, phase_of_error
from unilab.doctor.walk import walk
from unilab.envs.registry import EnvConfig, make_env


class Good(gym.Env):
    """Two uniform numbers, reward 1, an end by the registered limit."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.draw(), {}

    def step(self, action):
        self.t += 1
        return self.draw(), 1.0, False, False, {"speed": 1.0}

    def draw(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class RaisesInStep(Good):
    def step(self, action):
        if self.t == 20:
            raise ValueError("boom in step")
        return super().step(action)


class RaisesInConstructor(Good):
    def __init__(self):
        raise ValueError("boom in constructor")


class ExitsInReset(Good):
    def reset(self, **kwargs):
        raise SystemExit(3)


class NanObs(Good):
    def draw(self):
        return super().draw() if self.t < 20 else np.array([0.5, np.nan], np.float32)


class NanReward(Good):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, np.nan if self.t == 20 else 1.0, *rest


class OtherShape(Good):
    def draw(self):
        return super().draw() if self.t < 20 else np.zeros(3, np.float32)


class OtherDtype(Good):
    def draw(self):
        return super().draw().astype(np.float64)


class ListObs(Good):
    def draw(self):
        return super().draw().tolist()


class OutOfBounds(Good):
    def draw(self):
        return super().draw() if self.t != 20 else np.array([0.5, -7.0], np.float32)


class UsesGlobalRandom(Good):
    def draw(self):
        return np.random.uniform(-1, 1, 2).astype(np.float32)


class IgnoresSeed(Good):
    def draw(self):
        return np.full(2, min(self.t / 100, 1.0), np.float32)


class TerminatesAtLimit(Good):
    def step(self, action):
        obs, reward, *_ = super().step(action)
        return obs, reward, self.t == 20, False, {}


class NeverResets(Good):
    def reset(self, *, seed=None, options=None):
        self.t, before = 0, self.t
        if seed is not None:
            gym.Env.reset(self, seed=seed)
        return np.float32([before / 100, self.np_random.integers(1, 1000) / 1e3 if seed else 0.1]), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.t / 100, 0.1]), 1.0, False, False, {}


class ArrayReward(Good):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, np.array([1.0]), *rest


class IntFlag(Good):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, 0, False, info


class ListInfo(Good):
    def step(self, action):
        return *super().step(action)[:4], []


class LateSuccess(Good):
    def step(self, action):
        *rest, info = super().step(action)
        return *rest, info | ({"won": True} if self.t == 20 else {})


class DictObs(Good):
    observation_space = gym.spaces.Dict({"a": Good.observation_space, "b": gym.spaces.Box(0, 3, (1,), np.float32)})

    def draw(self):
        return {"a": super().draw(), "b": np.float32([4.0]) if self.t == 20 else np.float32([3.0])}


class Unbounded(Good):
    action_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)


@pytest.fixture
def examined():
    """Register a class as an env and examine it."""
    names = []

    def examine(kind, limit=25, **kwargs):
        names.append(f"{kind.__name__}-v0")
        gym.register(names[-1], entry_point=kind, max_episode_steps=limit)
        return examine_env(EnvConfig(env=names[-1], **kwargs), seed=0)

    yield examine
    for name in names:
        del gym.registry[name]


def odd(report):
    return [(found.level, found.check) for found in report.findings if found.level != "ok"]


def test_a_good_env_is_all_ok_and_its_speed_known(examined):
    report = examined(Good)

    assert odd(report) == []
    checks = [found.check for found in report.findings]
    assert checks == ["env", "seeds", "episodes", "speed", "observation", "values", "info", "processes"]
    assert report.spec.obs_dim == 2
    assert report.steps_per_s > 1000


@pytest.mark.parametrize("env", ["unilab/Toy-v0", "Pendulum-v1"])
def test_known_envs_are_all_ok(env):
    assert odd(examine_env(EnvConfig(env=env), seed=0)) == []


@pytest.mark.parametrize(
    ("kind", "said", "in_detail"),
    [
        (RaisesInStep, ["its step raised ValueError: boom in step", "env index 0, step 21"], "in step"),
        (RaisesInConstructor, ["cannot be made", "ValueError: boom in constructor"], "in __init__"),
        (ExitsInReset, ["its reset raised sys.exit(3)"], "in reset"),
        (NanObs, ["obs[1] = nan", "env index 0, step 20"], ""),
        (NanReward, ["reward = nan", "step 20"], ""),
        (OtherShape, ["shape (3,), its space says (2,)", "step 20"], ""),
        (Unbounded, ["action dimension 0 is unbounded", "--action-bound"], ""),
    ],
)
def test_an_env_that_cannot_be_trained_on_is_a_failure_by_name(examined, kind, said, in_detail):
    [found] = [found for found in examined(kind).findings if found.level == "FAIL"]

    for words in said:
        assert words in found.saw
    assert found.advice
    assert in_detail in found.detail
    assert ("test_doctor_env.py" in found.detail) == bool(in_detail)


@pytest.mark.parametrize(
    ("kind", "check", "said"),
    [
        (OtherDtype, "observation", "the observation is float64, its space says float32"),
        (ListObs, "observation", "the observation is list"),
        (OutOfBounds, "observation", "the observation[1] reached -7, outside of its space [-1, 1]"),
        (DictObs, "observation", "key 'b'[0] reached 4, outside of its space [0, 3]"),
        (UsesGlobalRandom, "seeds", "not reproducible: two envs with the same seed and the same actions differ in the"),
        (IgnoresSeed, "seeds", "two envs with different seeds did the same for 300 steps"),
        (TerminatesAtLimit, "episodes", "terminated after exactly 20 steps, which looks like a time limit"),
        (NeverResets, "episodes", "each next one began with the final observation"),
        (ArrayReward, "values", "reward is a ndarray of shape (1,)"),
        (IntFlag, "values", "terminated or truncated is a int"),
        (ListInfo, "info", "info is a list"),
        (LateSuccess, "info", "won appeared in info, but not in its first step"),
    ],
)
def test_an_env_that_works_but_not_as_promised_is_a_warning(examined, kind, check, said):
    found = [found for found in examined(kind).findings if found.level != "ok"]

    assert [(f.level, f.check) for f in found] == [("warn", check)]
    assert said in found[0].saw
    assert found[0].advice


def test_an_env_without_a_time_limit_that_never_ends_is_a_warning(examined):
    assert odd(examined(Good, limit=None)) == [("warn", "episodes")]


def test_an_episode_longer_than_the_usual_walk_is_walked_to_its_end(examined):
    [found] = [f for f in examined(Good, limit=400).findings if f.check == "episodes"]

    assert "2 ended after 400 steps, 0 terminated, 2 truncated" in found.saw


def test_a_walk_of_slow_steps_is_cut_short():
    cfg = EnvConfig(env="unilab/Toy-v0", num_envs=2, env_kwargs={"step_ms": 20})
    began = time.monotonic()

    seen = walk(make_env(cfg, seed=0), make_env(cfg, seed=0), limit_s=0.2)

    assert 2 <= seen.rounds <= 10
    assert time.monotonic() - began < 2


def test_an_unknown_id_is_a_failure_without_a_traceback():
    [found] = examine_env(EnvConfig(env="Pendulm-v1"), seed=0).findings

    assert "did you mean 'Pendulum-v1'" in found.saw
    assert found.detail == ""


# ------------------------------------------------------------ phases

DUMP = """Thread 0x01 (most recent call first):
  File "/x/threading.py", line 5 in wait

Thread 0x02 (most recent call first):
  File "/x/mine.py", line 7 in __init__
  File "/x/mine.py", line 6 in {name}
  File "/x/unilab/doctor/env_probe.py", line 1 in examine_env
"""


@pytest.mark.parametrize(
    ("name", "phase"), [("make_one", "constructor"), ("reset", "reset"), ("step", "step"), ("other", "start")]
)
def test_the_phase_is_our_outermost_call_into_the_env(name, phase):
    assert phase_of_dump(DUMP.format(name=name)) == phase


def test_without_a_stack_the_process_is_still_starting():
    assert phase_of_dump("") == "start"
    assert phase_of_error(ValueError()) == "start"


def test_the_phase_of_an_error_is_found_behind_its_cause():
    env = SimpleNamespace(step=lambda: 1 / 0)

    def step():
        env.step()

    def fails():
        try:
            step()
        except ZeroDivisionError as cause:
            raise RuntimeError from cause

    with pytest.raises(RuntimeError) as caught:
        fails()

    assert phase_of_error(caught.value) == "step"

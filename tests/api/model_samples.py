"""Models that learn in this process in well under a second, and envs in a module for them."""

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict

from unilab import SAC

SMALL: dict[str, Any] = {
    "serial": True,
    "num_envs": 2,
    "hidden": [8, 8],
    "batch_size": 8,
    "buffer_size": 2000,
    "learning_starts": 40,
    "eval_episodes": 2,
    "eval_max_steps": 20,
    "log_every": 50,
    "threads": 2,
}


def small(tmp_path, env="unilab/Toy-v0", model=SAC, **fields):
    return model(env, **(SMALL | {"log_dir": tmp_path, "seed": 3} | fields))


class Joint(gym.Env):
    """A Dict observation, an action of shape (1, 2) in bounds that are not symmetric."""

    observation_space = Dict({"angle": Box(-4, 4, (2, 2), np.float64), "speed": Box(-9, 9, (1,), np.float32)})
    action_space = Box(np.array([[-1.0, 0.0]], np.float32), np.array([[3.0, 10.0]], np.float32))

    def __init__(self, gain=1.0):
        self.gain = gain

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(action.sum() * self.gain), False, False, {}

    class Inner(gym.Env):
        """A class within a class."""


class Stuck(Joint):
    def __init__(self):
        time.sleep(600)


def make_joint(gain=1.0):
    return gym.wrappers.TimeLimit(Joint(gain), 7)


class Boasting(gym.Env):
    """Its info has names of evaluations, and numbers that are none; -1 a step, five steps."""

    observation_space = Box(-1, 1, (1,))
    action_space = Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {"mean_reward": 500.0, "std_reward": 9.0, "mean_ep_length": 3.0, "ep_rew_mean": 77.0}
        return np.zeros(1, np.float32), -1.0, self.steps == 5, False, info


class Options(Boasting):
    def __init__(self, a=None):
        assert not isinstance(a, tuple), "config.yaml keeps lists"


class Sized(Boasting):
    """Spaces that its maker decides on."""

    def __init__(self, obs=3, act=1, low=-1.0, high=1.0):
        self.observation_space = Box(-1, 1, (obs,))
        self.action_space = Box(low, high, (act,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        _, *rest = super().step(action)
        return self.observation_space.sample(), *rest

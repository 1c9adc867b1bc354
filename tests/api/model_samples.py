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

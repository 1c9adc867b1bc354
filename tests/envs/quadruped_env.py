"""QuadrupedVelocity for the tests."""

import numpy as np

from unilab.envs.registry import EnvConfig, make_env

ENV_ID = "unilab/QuadrupedVelocity-v0"
QUIET = {"gyro": 0, "gravity": 0, "joint_angle": 0, "joint_velocity": 0}
NO_DELAY = {"delay_s": [0, 0]}
EVERYTHING = {
    "pushes": {"speed": 1.0, "every_s": [0.06, 0.2]},
    "variation": {"friction": [0.4, 1.2], "mass": [0.8, 1.3], "servo_gain": [0.8, 1.2]},
    "commands": {"curriculum": True, "every_s": [0.04, 0.1]},
    "ground": {"kind": "hills"},
}
"""Every option that draws or keeps something, at a pace that a short test sees."""


def quadruped(n=1, seed=0, threads=1, **kwargs):
    cfg = EnvConfig(env=ENV_ID, num_envs=n, env_kwargs={"stagger": False} | kwargs)
    return make_env(cfg, seed=seed, threads=threads)


def still(n=1):
    return np.zeros((n, 12), np.float32)


def some_actions(n, steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, n, 12)).astype(np.float32)

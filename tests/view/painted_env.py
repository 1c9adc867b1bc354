"""Envs that need no OpenGL: their pictures are plain colours that say which seed, step and action it was."""

import gymnasium as gym
import numpy as np


class Painted(gym.Env):
    """Red: drawn at the first reset, so it tells seeds apart. Green: 20 times the step. Blue: the last action.

    The observation depends on the step only.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode=None, obs_dim=2):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (obs_dim,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tag, self.steps, self.blue = self.np_random.integers(0, 256), 0, 0
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        self.blue = blue(action[0])
        return self.observation(), 0.0, False, False, {}

    def observation(self):
        return np.resize(np.array([np.cos(self.steps), np.sin(self.steps)], np.float32), self.observation_space.shape)

    def render(self):
        return np.full((48, 64, 3), (self.tag, 20 * self.steps % 256, self.blue), np.uint8)


class NoPicture(Painted):
    def render(self):
        return [[0]]


class NoRenderMode(Painted):
    def __init__(self):
        super().__init__()


def blue(action):
    return round(127.5 * (float(action) + 1.0))


for env in (Painted, NoPicture, NoRenderMode):
    gym.register(f"{env.__name__}-v0", entry_point=env, max_episode_steps=100)

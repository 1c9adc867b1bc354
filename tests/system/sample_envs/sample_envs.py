"""Environments that misbehave in one way each, or report what they see; registered on import."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np


def note(**facts):
    """Append facts, one JSON line, to a file that the test reads."""
    with open(os.path.join(os.environ["SAMPLE_ENV_OUT"], "notes.jsonl"), "a") as file:
        file.write(json.dumps(facts) + "\n")


class Plain(gym.Env):
    """Two numbers, one action, reward 1; episodes end by the registered time limit."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        self.misbehave()
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, False, False, {}

    def misbehave(self):
        pass


class Raises(Plain):
    def misbehave(self):
        if self.steps == 60:
            raise ValueError("the env raises on purpose")


class SecondFails(Plain):
    """Of all that come to their 60th step while there is a file ``armed``, the second one fails, a while later."""

    def misbehave(self):
        armed, passed = (os.path.join(os.environ["SAMPLE_ENV_OUT"], name) for name in ("armed", "passed"))
        if self.steps != 60:
            return
        try:
            os.rename(armed, passed)
        except FileNotFoundError:
            pass
        else:
            return
        try:
            os.unlink(passed)
        except FileNotFoundError:
            return
        time.sleep(0.5)
        raise ValueError("the env raises on purpose")


class LastIsSlow(Plain):
    """Takes no time, but in ``collector-1`` 0.2 s a step."""

    def misbehave(self):
        if multiprocessing.current_process().name == "collector-1":
            time.sleep(0.2)


class Exits(Plain):
    def misbehave(self):
        if self.steps == 60:
            sys.exit(0)


class Dies(Plain):
    """Ends its process without a word, with exit code 0."""

    def misbehave(self):
        if self.steps == 60:
            os._exit(0)


class Crashes(Plain):
    def misbehave(self):
        if self.steps == 60:
            os.abort()


class Hangs(Plain):
    def misbehave(self):
        if self.steps == 60:
            note(hangs=True)
            time.sleep(3600)


class HasHelper(Plain):
    """Starts a helper process of its own, in a session of its own."""

    def __init__(self, own_session=False):
        self.own_session = own_session

    def misbehave(self):
        if self.steps == 5:
            helper = subprocess.Popen(["sleep", "3600"], start_new_session=self.own_session)
            note(helper=helper.pid)


class ForkedChild(Plain):
    """Forks a child that holds every descriptor of the collector open."""

    def misbehave(self):
        if self.steps == 5:
            pid = os.fork()
            if pid == 0:
                time.sleep(3600)
                os._exit(0)
            note(helper=pid)


class Jitters(Plain):
    """Steps take a random time that no seed decides."""

    def misbehave(self):
        if random.SystemRandom().random() < 0.1:
            time.sleep(random.SystemRandom().uniform(0, 0.004))


class BadValue(Plain):
    def __init__(self, where="obs", value="nan"):
        self.where, self.value = where, float(value)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        if self.steps == 60:
            if self.where == "obs":
                obs[1] = self.value
            else:
                reward = self.value
        return obs, reward, *rest


class Asks(Plain):
    """Notes what a collector looks like from inside."""

    def misbehave(self):
        if self.steps == 60:
            import multiprocessing

            import torch

            note(
                threads=torch.get_num_threads(),
                omp=os.environ.get("OMP_NUM_THREADS"),
                child=multiprocessing.parent_process() is not None,
                start=multiprocessing.get_start_method(allow_none=True),
                cuda=torch.cuda.is_initialized(),
                inheritable=[os.readlink(f"/proc/self/fd/{fd}") for fd in range(3, 256) if is_inheritable(fd)],
            )


def is_inheritable(fd):
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


class Seeds(Plain):
    def reset(self, *, seed=None, options=None):
        note(seed=seed, pid=os.getpid())
        return super().reset(seed=seed)


class CannotClose(Plain):
    def close(self):
        raise RuntimeError("cannot be closed")


class Endless(Plain):
    """Never ends an episode; registered without a time limit."""


gym.register("Endless-v0", entry_point=Endless)


for kind in (
    CannotClose,
    Plain,
    Raises,
    SecondFails,
    LastIsSlow,
    Exits,
    Dies,
    Crashes,
    Hangs,
    HasHelper,
    ForkedChild,
    Jitters,
    BadValue,
    Asks,
    Seeds,
):
    gym.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=25)


class OneState(gym.Env):
    """One observation for ever; what ends the episode, and when, is all that there is to learn."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length=5, reward=1.0, terminates=False, truncates=False):
        self.length, self.reward = length, reward
        self.terminates, self.truncates = terminates, truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.5, -0.5], np.float32), {}

    def step(self, action):
        self.t += 1
        last = self.t == self.length
        obs = np.array([0.5, -0.5], np.float32)
        return obs, self.reward, self.terminates and last, self.truncates and last, {}


gym.register("OneState-v0", entry_point=OneState)


class Whispers(gym.Env):
    """Where to go is known to critics only: reward is how near the action is to it, the rest is noise."""

    observation_space = gym.spaces.Dict(
        {
            "noise": gym.spaces.Box(-1, 1, (2,), np.float32),
            "where": gym.spaces.Box(-1, 1, (1,), np.float32),
            "load": gym.spaces.Box(-5, 5, (1, 2), np.float32),
        }
    )
    action_space = gym.spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        reward = -abs(float(action[0]) / 2 - float(self.where[0]))
        return self.observe(), reward, False, False, {}

    def observe(self):
        self.where = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        noise = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"noise": noise, "where": self.where.copy(), "load": np.full((1, 2), 3.0, np.float32)}


gym.register("Whispers-v0", entry_point=Whispers, max_episode_steps=25)

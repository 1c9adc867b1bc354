"""One env that misbehaves where and how it is told, outside of the process that probes it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

import gymnasium as gym
import numpy as np

from sample_envs import Plain, note


class Fault(Plain):
    """Misbehaves in a worker.

    Args:
        where: "construct", "reset" (the first), "step" (the 60th) or "never".
        how: "raise", "exit", "hang", "abort", "talk" or "slow".
        who: start of the name of the process that it happens in; "main" is the learner's, "any" is all.
    """

    def __init__(self, where="never", how="raise", who="collector"):
        self.where, self.how, self.who = where, how, who
        self.at("construct")

    def reset(self, *, seed=None, options=None):
        self.at("reset")
        return super().reset(seed=seed)

    def misbehave(self):
        if self.steps >= 60 or self.how in ("talk", "slow"):
            self.at("step")

    def at(self, where):
        process = multiprocessing.current_process().name.replace("MainProcess", "main")
        if where != self.where or not (self.who == "any" or process.startswith(self.who)):
            return
        if self.how not in ("talk", "slow"):
            note(fault=where)
        if self.how == "raise":
            raise ValueError(f"on purpose in {where}")
        if self.how == "exit":
            sys.exit(0)
        if self.how == "hang":
            time.sleep(3600)
        if self.how == "abort":
            os.abort()
        if self.how == "talk":
            for stream in (sys.stdout, sys.stderr):
                stream.write("the env says something\n")
                stream.flush()
        if self.how == "slow":
            time.sleep(0.02)


gym.register("Fault-v0", entry_point=Fault, max_episode_steps=25)


class Broken(Plain):
    """Every 40th step gives a value that is not finite, by turns in the observation and in the reward."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        turn = self.steps // 40 if self.steps % 40 == 0 else 0
        if turn % 2:
            obs[1] = np.nan
        elif turn:
            reward = -1e300
        return obs, reward, terminated, truncated, info


gym.register("Broken-v0", entry_point=Broken, max_episode_steps=25)

"""Environments with one fault each that only a process of its own survives; registered on import."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time

import gymnasium as gym

from sample_envs import Plain


class HangsInConstructor(Plain):
    def __init__(self):
        self.connect()

    def connect(self):
        time.sleep(3600)


class HangsInStep(Plain):
    def misbehave(self):
        if self.steps == 60:
            time.sleep(3600)


class KilledInStep(Plain):
    def misbehave(self):
        if self.steps == 60:
            os.abort()


class LeavesChild(Plain):
    """Starts a process in a session of its own and forgets it; raises where only a run steps it, in a collector."""

    def __init__(self):
        subprocess.Popen(["sleep", "3600"], start_new_session=True)

    def misbehave(self):
        if self.steps == 5 and multiprocessing.current_process().name == "collector-0":
            raise ValueError("only in a run")


for kind in (HangsInConstructor, HangsInStep, KilledInStep, LeavesChild):
    gym.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=25)

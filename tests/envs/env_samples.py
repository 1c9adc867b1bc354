"""Gymnasium envs for the tests; `env_samples:Tagged-v0` also imports in a spawned process."""

import itertools
import os
import signal
import time
from collections import OrderedDict

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

TAGS = 2**20
UNIT = Box(-1, 1, (1,), np.float32)


class Tagged(gym.Env):
    """Columns tag, tick, step in the episode, last action; the reward is the tick acted in (case a02).

    The tag comes from the first seed, so that it is the same in any process; later seeds must be None.
    """

    observation_space = Box(-np.inf, np.inf, (4,), np.float64)
    action_space = Box(np.array([-3.0], np.float32), np.array([5.0], np.float32))

    def __init__(self, length=3, ends="mixed"):
        self.length, self.ends = length, ends
        self.tag, self.tick, self.episode = None, 0, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert seed is None or self.tag is None, "only the first reset gets a seed"
        self.tag = self.tag if seed is None else seed % TAGS
        self.tick += 1000 - self.tick % 1000
        self.k, self.episode = 0, self.episode + 1
        return np.array([self.tag or 0, self.tick, 0, 0], np.float64), {"tick": -1.0}

    def step(self, action):
        reward, self.tick, self.k = float(self.tick), self.tick + 1, self.k + 1
        over = self.k == self.length
        turn = ((self.tag or 0) + self.episode) % 3
        terminated = over and (self.ends == "terminated" or (self.ends == "mixed" and turn != 1))
        truncated = over and (self.ends == "truncated" or (self.ends == "mixed" and turn != 0))
        info = {"tick": self.tick, "is_success": terminated, "text": "not a number"}
        return np.array([self.tag or 0, self.tick, self.k, action[0]]), reward, terminated, truncated, info


class Given(gym.Env):
    """Returns the same given things in every step."""

    def __init__(
        self,
        space=None,
        obs=None,
        reward=0.0,
        info=None,
        action_space=UNIT,
        ended=False,
        reset_info=None,
    ):
        self.observation_space = space if space is not None else Box(-1, 1, (2,), np.float32)
        self.action_space = action_space
        self.obs = np.zeros(2, np.float32) if obs is None else obs
        self.result = reward, ended, False, {} if info is None else info
        self.reset_info = reset_info
        self.actions = []
        self.seeds = []
        self.closed = 0

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return self.obs, self.reset_info or {}

    def step(self, action):
        self.actions.append(action)
        return self.obs, *self.result

    def close(self):
        self.closed += 1


class InPlace(gym.Env):
    """Hands out one array and keeps writing into it (case a03)."""

    observation_space = Box(0, 1e7, (3,), np.float32)
    action_space = UNIT

    def __init__(self):
        self.buffer = np.zeros(3, np.float32)

    def reset(self, *, seed=None, options=None):
        self.buffer[:] = 0
        return self.buffer, {}

    def step(self, action):
        self.buffer += 1
        return self.buffer, float(self.buffer[0]), False, bool(self.buffer[0] == 4), {}


class TwoArgumentError(Exception):
    """Cannot be rebuilt from its message, and so not unpickled either."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class Failing(gym.Env):
    """Fails in a chosen way."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = UNIT
    at_home = os.getpid()

    def __init__(self, fail="step", at=2):
        self.fail, self.at, self.k, self.resets = fail, at, 0, 0
        if fail == "init" and os.environ.get("ENV_SAMPLES_FAIL"):
            raise OSError("no licence")

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        if self.fail == "reset" and self.resets > 1:
            raise RuntimeError("boom in reset")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.k += 1
        if self.k == self.at:
            if self.fail == "step":
                raise ValueError("boom in step")
            if self.fail == "odd":
                raise TwoArgumentError("this", "that")
            if self.fail == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fail == "hang":
                time.sleep(600)
        return np.zeros(2, np.float32), 0.0, self.fail == "reset", False, {}


class Keyed(gym.Env):
    """A Dict observation whose keys are not in alphabetical order; vel holds 1, 2, arm 3, 4, 5, secret 9."""

    action_space = UNIT

    def __init__(self, ordered=False):
        boxes = [
            ("vel", Box(-9, 9, (2,), np.float64)),
            ("secret", Box(-9, 9, (), np.float32)),
            ("arm", Box(-9, 9, (1, 3), np.int64)),
        ]
        self.observation_space = gym.spaces.Dict(OrderedDict(boxes) if ordered else dict(boxes))

    def reset(self, *, seed=None, options=None):
        return self._obs(), {}

    def _obs(self):
        return {"secret": np.float32(9), "vel": np.array([1.0, 2.0]), "arm": np.array([[3, 4, 5]])}

    def step(self, action):
        return self._obs(), 0.0, False, False, {}


class WeirdInfo(gym.Env):
    """Infos with new keys in every step and values that cannot be pickled (case a12)."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = UNIT
    count = itertools.count()

    def _info(self):
        k = next(self.count)
        return {
            f"key{k}": np.arange(k % 7),
            "fn": lambda: 0,
            "final_observation": "not an array",
            "TimeLimit.truncated": None,
            "episode": None,
            5: 1.0,
        }

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), self._info()

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, self._info()


class BadInit(gym.Env):
    """A constructor that raises."""

    def __init__(self, colour="red"):
        raise FileNotFoundError(f"no {colour} model\nin /nowhere")


class Unstable(gym.Env):
    """MuJoCo gives up on its first step (case a18); the import is of those who use it."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = UNIT
    xml = """<mujoco><worldbody><body><joint name='s' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body>
    </worldbody><actuator><motor joint='s' gear='1e11'/></actuator></mujoco>"""

    def __init__(self):
        import mujoco

        self.mujoco, self.model = mujoco, mujoco.MjModel.from_xml_string(self.xml)
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed=None, options=None):
        return self.data.qpos.copy(), {}

    def step(self, action):
        self.data.ctrl[:] = 1.0
        self.mujoco.mj_step(self.model, self.data)
        return self.data.qpos.copy(), 0.0, False, False, {}


for _name in ("Unstable", "Tagged", "Given", "InPlace", "Failing", "Keyed", "WeirdInfo", "BadInit"):
    gym.register(f"{_name}-v0", entry_point=globals()[_name])
gym.register("Limited-v0", entry_point=Given, max_episode_steps=9)

"""What runs in the process of one env: the guard, which lets nothing odd over the border.

Float32 rows, one reward, two flags and the named metrics go home; dtypes, infos and exceptions end here.
An exception travels as bytes in the info, because ``AsyncVectorEnv``'s own way waits for ever where one
cannot be pickled, and rebuilds the others from a single argument.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from unilab.envs.gymnasium_info import metric_value, scalar
from unilab.envs.gymnasium_make import make_one
from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.envs.gymnasium_spec import check_same
from unilab.envs.module_id import one_line
from unilab.envs.mujoco_log import log_to
from unilab.output import keep_output_harmless
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig

ERROR = "unilab_error"
HIDDEN = "hidden"
"""Key of the columns that only the critic sees."""

_PR_SET_PDEATHSIG = 1


class MakeGuard:
    """Makes the guard of one env in its process; picklable.

    Args:
        cfg: which env.
        spec: the run's probe of it.
        index: run-wide index of the env.
        log_dir: for MuJoCo's log; None: nowhere.
    """

    def __init__(self, cfg: EnvConfig, spec: EnvSpec, index: int, log_dir: Path | None) -> None:
        self._cfg, self._spec, self._index, self._log_dir = cfg, spec, index, log_dir
        self._parent = os.getpid()

    def __call__(self) -> Guard:
        """The guard; in another process than the one that made ``self``, that process is prepared first."""
        if os.getpid() != self._parent:  # AsyncVectorEnv also calls this at home, to see the spaces
            keep_output_harmless()
            _belong_to(self._parent)
        return Guard(self._cfg, self._spec, self._index, self._log_dir)


class Guard(gym.Env[Any, Any]):
    """A gymnasium env as seen over the process border: actions in [-1, 1], float32 observations.

    The env is built by the first reset, so that what its constructor raises goes home like everything else.
    """

    def __init__(self, cfg: EnvConfig, spec: EnvSpec, index: int, log_dir: Path | None = None) -> None:
        self._cfg, self._spec, self._index, self._log_dir = cfg, spec, index, log_dir
        self.action_space = spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)
        self.observation_space = self._space()
        self._env: gym.Env[Any, Any] | None = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """One observation; an exception of the env is in the info."""
        try:
            env = self._env or self._build()
            return self._pack(env.reset(seed=seed)[0]), {}
        except Exception as error:
            return self._zeros(), self._packed(error, f"reset after step {self._steps}")

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The transition and the named metrics; an exception of the env is in the info."""
        self._steps += 1
        try:
            env = self._env or self._build()
            env_action = self._scale(action[None], self._index, self._steps)[0, ...]
            obs, reward, terminated, truncated, info = env.step(env_action)
            values = info if isinstance(info, dict) else {}
            metrics = {name: metric_value(values.get(name)) for name in self._spec.metric_names}
            return self._pack(obs), scalar("reward", reward), bool(terminated), bool(truncated), metrics
        except Exception as error:
            return self._zeros(), 0.0, False, False, self._packed(error, f"step {self._steps}")

    def close(self) -> None:
        """Close the env if it was built."""
        if self._env is not None:
            self._env.close()

    def _build(self) -> gym.Env[Any, Any]:
        env = self._env = make_one(self._cfg)
        log_to(self._log_dir)
        self._layout = ObsLayout(self._cfg.env, env.observation_space, self._cfg.critic_keys)
        self._scale = ActionScale(self._cfg.env, env.action_space, self._cfg.action_bound)
        check_same(self._spec, self._layout, self._scale)
        return env

    def _space(self) -> spaces.Space[Any]:
        def box(columns: int) -> spaces.Box:
            return spaces.Box(-np.inf, np.inf, (columns,), np.float32)

        spec = self._spec
        if not spec.critic_dim:
            return box(spec.obs_dim)
        hidden = box(spec.critic_dim - spec.obs_dim)
        return spaces.Dict({"obs": box(spec.obs_dim), HIDDEN: hidden}, sort_keys=False)

    def _pack(self, obs: Any) -> Any:
        rows = self._layout.empty(1)
        self._layout.write(rows[0], obs)
        groups = self._layout.groups(rows)
        if "critic" not in groups:
            return groups["obs"][0]
        return {"obs": groups["obs"][0], HIDDEN: groups["critic"][0, self._spec.obs_dim :]}

    def _zeros(self) -> Any:
        """A stand-in beside an error; never used."""
        obs = np.zeros(self._spec.obs_dim, np.float32)
        hidden = np.zeros(max(0, self._spec.critic_dim - self._spec.obs_dim), np.float32)
        return {"obs": obs, HIDDEN: hidden} if self._spec.critic_dim else obs

    def _packed(self, error: Exception, where: str) -> dict[str, Any]:
        error.add_note(f"env index {self._index}, {where}")
        return {ERROR: pack_error(error)}


class EnvTraceback(Exception):
    """The traceback in the env's process, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def pack_error(error: Exception) -> bytes:
    """The exception and its traceback as bytes; a RuntimeError stands in for one that cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        body = pickle.dumps(error)
        pickle.loads(body)
    except Exception:
        stand_in = RuntimeError(one_line(error))
        stand_in.__notes__ = list(getattr(error, "__notes__", ()))
        body = pickle.dumps(stand_in)
    return pickle.dumps((body, text))


def unpack_error(packed: bytes) -> BaseException:
    """The exception of ``pack_error``, with the traceback of its process as its cause."""
    body, text = pickle.loads(packed)
    error: BaseException = pickle.loads(body)
    error.__cause__ = EnvTraceback(text)
    return error


def _belong_to(parent: int) -> None:
    """Leave Ctrl-C to the parent, and die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # The end of the pipe says the same, but only to an env that is not in the middle of a step.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

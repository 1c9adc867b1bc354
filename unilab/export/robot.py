"""What is simulated: the MuJoCo model behind a run's env, if there is one, and how an observation follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from unilab.envs.base import BatchEnv, closing_env
from unilab.envs.choice import choose
from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks.assets import model_path
from unilab.envs.tasks.base import Deployment, Task
from unilab.envs.tasks.recipe import Part
from unilab.errors import EnvError
from unilab.export.parity import env_units
from unilab.spec import EnvSpec

_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A MuJoCo model and how it is controlled."""

    model: mujoco.MjModel
    frame_skip: int
    dt: float
    """Seconds of an env step."""
    xml: Path | None = None
    """Of the model, where it needs no other file."""
    parts: tuple[Part, ...] | None = None
    """The observation out of MjData, where that has been seen to be right."""
    deployment: Deployment | None = None
    """The task's own way to run a policy in plain MuJoCo. Neither this nor parts: run_policy.py cannot simulate."""

    @property
    def simulates(self) -> bool:
        """Whether the bundle can run its policy in plain MuJoCo."""
        return self.parts is not None or self.deployment is not None


def robot_of(cfg: EnvConfig, spec: EnvSpec) -> tuple[Robot | None, float | None]:
    """The robot of an env, and the control rate in Hz; None where the env does not say.

    Args:
        cfg: of the run's envs.
        spec: of the run's env.
    """
    native = replace(cfg, backend="auto", vec="auto", num_envs=1)
    if choose(native).name != "mujoco":
        native = replace(cfg, vec="sync", num_envs=1)
    with closing_env(make_env(native, seed=0, role="eval")) as env:
        if isinstance(env, MujocoBatchEnv) and (env.spec.obs_dim, env.spec.action_dim) == (
            spec.obs_dim,
            spec.action_dim,
        ):
            robot = _native(env)
            return robot, 1 / robot.dt
        return _of_gymnasium(env)


def _native(env: MujocoBatchEnv) -> Robot:
    task, model = env.task, env.sim.model
    recipe = task.recipe(model)
    return Robot(
        model=model,
        frame_skip=task.frame_skip,
        dt=round(task.dt(env.sim), 9),
        xml=_whole_file(task),
        parts=tuple(recipe) if recipe is not None and rebuilds(env, recipe) else None,
        deployment=task.deployment(),
    )


def rebuilds(env: MujocoBatchEnv, recipe: Sequence[Part]) -> bool:
    """Whether plain MuJoCo under the same actions gives the observations of an env, by a recipe.

    Args:
        env: of one simulation; it is reset.
        recipe: of its observation.
    """
    from unilab.export.run_policy import observe

    parts, scale, rng = [dataclasses.asdict(part) for part in recipe], env_units(env.spec), np.random.default_rng(0)
    model, data = env.sim.model, mujoco.MjData(env.sim.model)
    seen = env.reset()["obs"][0]
    env.sim.copy_to(data, 0)
    mujoco.mj_forward(model, data)
    for _ in range(_STEPS):
        rebuilt = observe(data, parts)
        if rebuilt.shape != seen.shape or not np.allclose(rebuilt, seen, rtol=1e-5, atol=1e-5):
            return False
        action = rng.uniform(-1, 1, (1, env.spec.action_dim)).astype(np.float32)
        step = env.step(action)
        if step.terminated[0] or step.truncated[0]:
            return True
        seen = step.next_obs["obs"][0]
        data.ctrl[:] = scale(action, 0, 0)[0]
        mujoco.mj_step(model, data, env.task.frame_skip)
        mujoco.mj_rnePostConstraint(model, data)
    return True


def _whole_file(task: Task) -> Path | None:
    """The XML file of a task, where the model is that file and nothing else."""
    if type(task).load is not Task.load:
        return None
    try:
        path = Path(model_path(task.xml_file))
        text = path.read_text()
    except (EnvError, OSError, UnicodeDecodeError):
        return None
    return None if "file=" in text else path


def _of_gymnasium(env: BatchEnv) -> tuple[Robot | None, float | None]:
    """What an env of Gymnasium's kind says of itself: MuJoCo envs have a model, others may have a ``dt``."""
    inner: Any = getattr(env, "envs", [None])[0]
    inner = getattr(inner, "unwrapped", None)
    dt = getattr(inner, "dt", None)
    if not isinstance(dt, int | float) or isinstance(dt, bool) or not 0 < dt < 1e3:
        return None, None
    model, skip = getattr(inner, "model", None), getattr(inner, "frame_skip", None)
    if not isinstance(model, mujoco.MjModel) or not isinstance(skip, int):
        return None, 1 / round(float(dt), 9)
    return Robot(model=model, frame_skip=skip, dt=round(float(dt), 9)), 1 / round(float(dt), 9)

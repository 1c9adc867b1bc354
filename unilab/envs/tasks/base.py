"""What a native task is: a model and a few functions of arrays.

A task is a frozen dataclass; its fields are the constructor's options, which ``--env-kwargs`` sets. It holds no state:
what it keeps between steps lies in ``Sim.memory``. One step of n envs calls, in this order,

    before    what the reward compares with, read before the simulation moves
    advance   actions to controls, and the substeps
    outcome   reward, termination, metrics
    update    what changes between two steps: commands, pushes, history
    observe   the successor of every env
    reset     the first state of each env whose episode has ended, one at a time, from the env's own generator
    observe   the first observation of those envs

All arrays are float64 and have one row per env; see ``Sim`` for what can be read and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.assets import model_path
from unilab.envs.tasks.camera import Camera
from unilab.envs.tasks.recipe import Part
from unilab.mirror import Mirror

Array = NDArray[np.float64]
Rows = slice | NDArray[np.int64]
"""Which envs: ``slice(None)`` for all, or their sorted indices."""


@dataclass(slots=True)
class Outcome:
    """What one step gave."""

    reward: NDArray[Any]  # [n]
    terminated: NDArray[np.bool_]  # [n]
    metrics: dict[str, NDArray[Any]] = field(default_factory=dict)  # [n] each, the same names in every step


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a bundle needs to run a policy in plain MuJoCo."""

    script: Path
    """Becomes ``run_policy.py``: mujoco, numpy and onnxruntime are all that it imports."""
    qpos: NDArray[np.float64]
    """The pose that it starts in."""
    facts: Mapping[str, Any]
    """Numbers and lists that it needs, ``robot`` in ``metadata.json``."""


class Task:
    """Base of all native tasks; a task overrides ``observe`` and ``outcome``, and what else differs."""

    xml_file: str
    """MJCF file: absolute, from ``.`` or ``~``, or the name of one of Gymnasium's own models."""

    frame_skip: int
    """Simulation steps per env step."""

    fields: ClassVar[tuple[str, ...]] = ()
    """Derived MjData fields that the task reads from ``Sim.data``; ``cfrc_ext`` costs ``mj_rnePostConstraint``."""

    max_episode_steps: ClassVar[int | None] = 1000
    """Steps after which an episode is truncated; None: never."""

    camera: ClassVar[Camera] = Camera()
    """Where ``unilab view`` looks from."""

    def load(self) -> mujoco.MjModel:
        """The model; by default ``xml_file``."""
        return mujoco.MjModel.from_xml_path(model_path(self.xml_file))

    def action_bounds(self, model: mujoco.MjModel) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lower and upper bound of each action dimension, in the units that ``advance`` gets; the controls' range."""
        low, high = model.actuator_ctrlrange.astype(np.float32).T
        return low, high

    def begin(self, sim: Sim) -> None:
        """Called once: make arrays in ``sim.memory``, give model fields per-env values (``sim.expand``)."""

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """Write the first state of env ``i``, which holds the model's default state; all noise comes from ``rng``."""

    def before(self, sim: Sim) -> Any:
        """What ``outcome`` needs of the state acted in; copies, because the arrays of ``sim`` are live."""
        return None

    def advance(self, sim: Sim, action: NDArray[np.float32]) -> None:
        """Move the simulation by one env step under ``action`` [n, action_dim]."""
        sim.ctrl[:] = action
        sim.step(self.frame_skip)

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: Any) -> Outcome:
        """Reward, termination and metrics of the step just made."""
        raise NotImplementedError

    def update(self, sim: Sim) -> None:
        """Change what the next step will meet; ``sim.rngs`` has each env's generator."""

    def observe(self, sim: Sim, rows: Rows) -> Mapping[str, Array]:
        """Observation groups of some envs.

        "obs" [k, obs_dim] always; "critic" [k, critic_dim], all that the critics see, where that is something else:
        what obs has (it may be without noise), and what only they see behind it.
        """
        raise NotImplementedError

    def recipe(self, model: mujoco.MjModel) -> Sequence[Part] | None:
        """What ``observe`` puts together, for an exported policy to run in plain MuJoCo.

        None where the actions are not the controls, or where an observation holds more than ``MjData`` does.
        """
        return None

    def deployment(self) -> Deployment | None:
        """How an exported policy runs in plain MuJoCo where a recipe cannot say it."""
        return None

    def mirror(self) -> Mirror | None:
        """The left/right mirror map of observations and actions, where mirrored transitions are as good as any.

        For ``--symmetry``; reward, termination and all that is drawn must not tell left from right.
        """
        return None

    def dt(self, sim: Sim) -> float:
        """Seconds of one env step."""
        return sim.timestep * self.frame_skip

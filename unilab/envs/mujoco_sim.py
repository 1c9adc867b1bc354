"""n simulations of one model as live arrays: what a native task reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.generators import pack_generators, unpack_generators
from unilab.envs.mujoco_rne import RneBatch
from unilab.envs.mujoco_savings import stop_clock, without_islands
from unilab.errors import EnvError

Array = NDArray[np.float64]

# Bad positions, velocities and accelerations lie side by side, so that one view of the counters has all three.
_FIRST_BAD, _LAST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC)
_HUGE = mujoco.mjMAXVAL


class Engine(Protocol):
    """What steps the simulations; ``mujoco.batch.Batch`` is one."""

    state: Array  # [n, nstate] mjSTATE_INTEGRATION of each simulation
    warning: NDArray[np.int32]  # [n, kinds, 2]: last info and number of each kind of warning

    def bind(self, name: str) -> Array:
        """A live [n, ...] array over an MjData field."""

    def step(self, ids: Any = None, nstep: int = 1) -> None:
        """``nstep`` times ``mj_step``."""

    def forward(self, ids: Any = None) -> None:
        """``mj_forward`` on the simulations ``ids``."""

    def reset(self, ids: Any = None, *, stage: int) -> None:
        """Write the model's default state."""


class Sim:
    """Live arrays over n simulations, one row each; the same objects from the first step to the last.

    Args:
        model: of all simulations.
        num_envs: simulations.
        threads: that step them; the results do not depend on it.
        fields: derived MjData fields to keep in ``data``; with ``cfrc_ext`` among them every step ends with
            ``mj_rnePostConstraint``.
        rngs: a generator per simulation.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        num_envs: int,
        *,
        threads: int,
        fields: Sequence[str],
        rngs: Sequence[Generator],
    ) -> None:
        stop_clock()
        self.model = model = without_islands(model)
        self.timestep = float(model.opt.timestep)  # read in every step, and slow to read there
        self.num_envs = num_envs
        self.rngs = list(rngs)
        self.memory: dict[str, NDArray[Any]] = {}
        """Arrays [n, ...] that the task keeps between steps; saved and restored with the state. Write into them."""
        self.episode_steps = np.zeros(num_envs, np.int64)
        """[n] steps of the running episode."""

        self._rne = "cfrc_ext" in fields
        self._engine: Engine = (
            RneBatch(model, num_envs, threads, fields) if self._rne else Batch(model, num_envs, threads)
        )
        bind = self._engine.bind
        self.qpos, self.qvel, self.ctrl = bind("qpos"), bind("qvel"), bind("ctrl")
        self.act, self.time = bind("act"), bind("time")
        self.data: dict[str, Array] = {name: bind(name) for name in fields}
        """Derived MjData fields by name, [n, ...] each: of the last substep's start, as after ``mj_step``."""
        self._expanded: dict[str, NDArray[Any]] = {}
        self._set_const = np.zeros(num_envs, np.bool_)
        self._unstable = self._engine.warning[:, _FIRST_BAD : _LAST_BAD + 1, 1]

    def step(self, nstep: int) -> None:
        """``nstep`` times ``mj_step``, with the controls as they are."""
        self._engine.step(nstep=nstep)

    def default(self, rows: NDArray[np.int64]) -> None:
        """Put these simulations into the model's default state, with all warnings forgotten."""
        self._engine.reset(rows.astype(np.int32), stage=int(mujoco.mjtStage.mjSTAGE_NONE))

    def forward(self, rows: NDArray[np.int64]) -> None:
        """``mj_forward``, so that ``data`` fits a state that was written."""
        self._engine.forward(rows.astype(np.int32))

    def unstable(self) -> NDArray[np.bool_]:
        """[n] simulations that have blown up since ``default``.

        MuJoCo's numbers stay finite then: a huge or NaN acceleration, position or velocity makes ``mj_step`` put the
        data back to the default state and count a warning, and that is all there is to see. What the last substep made
        of the state it would find in the next step only; that is seen here.
        """
        bad = np.asarray(self._unstable.any(axis=1), np.bool_)
        state = self._engine.state
        if np.vdot(state, state) < _HUGE**2:
            return bad
        bad |= ~(np.abs(state) < _HUGE).all(axis=1)  # also NaN
        return bad

    def expand(self, name: str) -> NDArray[Any]:
        """Give a model field one value per simulation; returns the live [n, ...] array. See ``Batch.expand``.

        Raises:
            EnvError: the task reads ``cfrc_ext``, whose engine has one model for all.
        """
        self._expanded[name] = self._batch().expand(name)
        return self._expanded[name]

    def set_const(self, rows: NDArray[np.int64] | None = None) -> None:
        """Recompute the constants that follow from expanded fields (masses, inertias); ``mj_setConst``."""
        self._set_const[slice(None) if rows is None else rows] = True
        self._batch().set_const(None if rows is None else rows.astype(np.int32))

    def copy_to(self, data: mujoco.MjData, i: int) -> None:
        """Put ``data``, of the same model, into the state of simulation ``i``; what follows from it is not computed."""
        mujoco.mj_setState(self.model, data, self._engine.state[i], mujoco.mjtState.mjSTATE_INTEGRATION)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the next steps depend on, as copies; [n, ...] each."""
        arrays = self._arrays()
        return {name: array.copy() for name, array in arrays.items()} | {"generators": pack_generators(self.rngs)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue where ``state`` was called.

        Raises:
            EnvError: the state is of another task or of another number of envs.
        """
        arrays = self._arrays()
        for name, array in arrays.items():
            if name not in state or state[name].shape != array.shape:
                got = state[name].shape if name in state else "not there"
                raise EnvError(f"the saved state does not fit this env: {name} is {got}, needed is {array.shape}")
        for name, array in arrays.items():
            writable = array.flags.writeable
            if not writable:  # the engine's derived fields, so that no task writes them by mistake
                array.flags.writeable = True
            array[...] = state[name]
            if not writable:
                array.flags.writeable = False
        unpack_generators(state["generators"], self.rngs)
        if self._set_const.any():
            self.set_const(np.flatnonzero(self._set_const))
        self._unstable[...] = 0

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own = {"engine": self._engine.state, "episode_steps": self.episode_steps, "set_const": self._set_const}
        groups = {"data": self.data, "memory": self.memory, "model": self._expanded}
        return own | {f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()}

    def _batch(self) -> Batch:
        if not isinstance(self._engine, Batch):
            raise EnvError("a task that reads cfrc_ext cannot have model fields per simulation")
        return self._engine

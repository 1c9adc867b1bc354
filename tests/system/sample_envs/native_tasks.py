"""A native task of one's own whose simulation blows up now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from unilab.envs.tasks import register
from unilab.envs.tasks.base import Outcome, Task

CART = """<mujoco><option timestep='0.002'/><worldbody><body pos='0 0 1'>
<joint name='s' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body></worldbody>
<actuator><motor joint='s' gear='1e11' ctrlrange='-1 1' ctrllimited='true'/></actuator></mujoco>"""


@dataclass(frozen=True, kw_only=True)
class Loose(Task):
    """Rests at 0.3; an action above 0.9 makes an acceleration that MuJoCo gives up on."""

    frame_skip: int = 5

    def load(self) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(CART)

    def reset(self, sim: Any, i: int, rng: np.random.Generator) -> None:
        sim.qpos[i] = 0.3

    def advance(self, sim: Any, action: Any) -> None:
        sim.ctrl[:] = action > 0.9
        sim.step(self.frame_skip)

    def outcome(self, sim: Any, action: Any, before: None) -> Outcome:
        return Outcome(np.ones(sim.num_envs), np.zeros(sim.num_envs, np.bool_))

    def observe(self, sim: Any, rows: Any) -> dict[str, Any]:
        return {"obs": np.column_stack([sim.qpos[rows], sim.qvel[rows]])}


register("Loose-v0", Loose)

"""HumanoidStandup-v5: get up from lying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import mujoco
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unilab.envs.mujoco_sim import Sim
from unilab.envs.tasks.base import Array, Outcome, Rows, Task
from unilab.envs.tasks.camera import Camera
from unilab.envs.tasks.humanoid_view import humanoid_observation, humanoid_recipe
from unilab.envs.tasks.noise import add_uniform_noise
from unilab.envs.tasks.recipe import Part


@dataclass(frozen=True, kw_only=True)
class HumanoidStandup(Task):
    """Options and results as ``gymnasium.envs.mujoco.humanoidstandup_v5``."""

    fields: ClassVar[tuple[str, ...]] = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
    camera: ClassVar[Camera] = Camera(azimuth=60.0)

    xml_file: str = "humanoidstandup.xml"
    frame_skip: int = 5
    uph_cost_weight: float = 1.0  # Gymnasium takes it and reads it nowhere; so do we
    ctrl_cost_weight: float = 0.1
    impact_cost_weight: float = 0.5e-6
    impact_cost_range: tuple[float, float] = (float("-inf"), 10.0)
    reset_noise_scale: float = 1e-2
    exclude_current_positions_from_observation: bool = True
    include_cinert_in_observation: bool = True
    include_cvel_in_observation: bool = True
    include_qfrc_actuator_in_observation: bool = True
    include_cfrc_ext_in_observation: bool = True

    def reset(self, sim: Sim, i: int, rng: Generator) -> None:
        """See ``Task``."""
        add_uniform_noise(sim, i, rng, self.reset_noise_scale)

    def outcome(self, sim: Sim, action: NDArray[np.float32], before: None) -> Outcome:
        """Height over a simulation step, less costs of control and impact; no state is terminal."""
        z = sim.qpos[:, 2]
        up = z / sim.model.opt.timestep
        ctrl = self.ctrl_cost_weight * np.square(sim.ctrl).sum(axis=1)
        forces = sim.data["cfrc_ext"].reshape(sim.num_envs, -1)
        impact = np.clip(self.impact_cost_weight * np.square(forces).sum(axis=1), *self.impact_cost_range)
        metrics = {
            "x_position": sim.qpos[:, 0],
            "y_position": sim.qpos[:, 1],
            "z_distance_from_origin": z - sim.model.qpos0[2],
            "reward_linup": up,
            "reward_quadctrl": -ctrl,
            "reward_impact": -impact,
        }
        return Outcome(up - ctrl - impact + 1, np.zeros(sim.num_envs, np.bool_), metrics)

    def observe(self, sim: Sim, rows: Rows) -> dict[str, Array]:
        """See ``humanoid_observation``."""
        return {"obs": humanoid_observation(self, sim, rows)}

    def recipe(self, model: mujoco.MjModel) -> list[Part]:
        """See ``Task``."""
        return humanoid_recipe(self)

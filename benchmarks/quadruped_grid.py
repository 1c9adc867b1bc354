"""How well does a trained policy follow velocity commands? The judge of unilab/QuadrupedVelocity-v0.

    python benchmarks/quadruped_grid.py runs/latest --plot docs/results/quadruped.png

100 episodes of 20 s, one for each command of a grid over the whole range, with the noise and the delays that the run
was trained with, without pushes: vx in 5 steps, vy in 5, yaw in 4. The command stays; starts differ. The errors are
those of every step from the first on, up to a fall; a step is 20 ms, so the swing of a gait within a stride counts as
error. Beside the policy, a robot that holds its nominal pose is measured in the same way. Exit code 1 if the goals
are missed: falls <= 10 %, planar velocity RMSE <= 0.25 m/s and at most half of the standing robot's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.checkpoint import list_checkpoints
from unilab.envs.base import Groups
from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks.quadruped.commands import Commands
from unilab.envs.tasks.quadruped.measure import FRAME
from unilab.restore import load_policy

Array = NDArray[np.float64]
Act = Callable[[Groups], NDArray[np.float32]]

DT, STEPS, SETTLE = 0.02, 1000, 50
FALLS, RMSE, OF_STANDING = 0.10, 0.25, 0.5
COMMAND = slice(FRAME, FRAME + 3)  # columns of both groups
GYRO_Z = 2
PRIVILEGED = 24  # last columns of the critics' group, which begin with the trunk's velocity
NEVER = 1 << 40
TOUR = [
    (0, 0, 0),
    (1, 0, 0),
    (0.5, 0, 0),
    (-1, 0, 0),
    (0, 0.5, 0),
    (0, -0.5, 0),
    (0, 0, 1),
    (0, 0, -1),
    (0.7, 0.3, -0.7),
    (0, 0, 0),
]
TOUR_S = 2.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """Velocities [steps, n, 3] (vx, vy, yaw rate) under commands [steps, n, 3]; NaN after a fall."""

    command: Array
    velocity: Array

    @property
    def falls(self) -> float:
        """Share of envs that fell."""
        return float(np.isnan(self.velocity[-1, :, 0]).mean())

    def rmse(self, columns: slice, first: int = 0) -> float:
        """Root of the mean squared length of the error in some columns."""
        error = (self.velocity - self.command)[first:, :, columns]
        return float(np.sqrt(np.nanmean(np.square(error).sum(axis=2))))


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory or checkpoint")
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--plot", type=Path, help="PNG of the tracking")
    parser.add_argument("--json", type=Path, help="the figures as JSON")
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help="laid over the run's own, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = newest(args.run)
    policy, cfg = load_policy(path)
    env_cfg = replace(cfg.env, env_kwargs=judged_kwargs(cfg.env.env_kwargs) | args.env_kwargs)
    grid = command_grid(env_cfg)
    mine = play(env_cfg, policy.act, np.tile(grid, (STEPS, 1, 1)), args.seed)
    standing = play(env_cfg, stand, np.tile(grid, (STEPS, 1, 1)), args.seed)
    figures = {"checkpoint": path.name, "policy": summary(mine), "standing": summary(standing)}
    meta = json.loads((path / "meta.json").read_text())
    figures |= {"env_steps": meta["env_steps"], "wall_time_min": round(meta["wall_time_s"] / 60, 1)}
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    if args.plot:
        rounds = np.repeat(np.array(TOUR, float), round(TOUR_S / DT), axis=0)[:, None]
        draw(mine, play(env_cfg, policy.act, rounds, args.seed), args.plot)
    rmse = figures["policy"]["planar_rmse"]
    good = figures["policy"]["falls"] <= FALLS and rmse <= min(RMSE, OF_STANDING * figures["standing"]["planar_rmse"])
    print("goals met" if good else "goals missed")
    return 0 if good else 1


def newest(run: Path) -> Path:
    """The run's newest checkpoint, or the checkpoint itself."""
    found = list_checkpoints(run / "checkpoints") if (run / "checkpoints").is_dir() else []
    return found[-1] if found else run


def judged_kwargs(kwargs: dict[str, object]) -> dict[str, object]:
    """Options without those that change what is judged: no pushes, no curriculum, the whole range."""
    return {key: value for key, value in kwargs.items() if key not in ("pushes", "commands")}


def command_grid(cfg: EnvConfig) -> Array:
    """[100, 3] vx, vy, yaw rate."""
    full = Commands()
    axes = [np.linspace(-top, top, count) for top, count in ((full.vx, 5), (full.vy, 5), (full.yaw, 4))]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def stand(obs: Groups) -> NDArray[np.float32]:
    """Hold the nominal pose."""
    return np.zeros((len(obs["obs"]), 12), np.float32)


def play(cfg: EnvConfig, act: Act, commands: Array, seed: int) -> Rollout:
    """One episode of each env under given commands [steps, n, 3]."""
    env = make_env(replace(cfg, num_envs=commands.shape[1]), seed=seed, role="eval")
    assert isinstance(env, MujocoBatchEnv)
    env.reset()
    velocity = np.full(commands.shape, np.nan)
    fallen = np.zeros(commands.shape[1], np.bool_)
    for k, command in enumerate(commands):
        if k == 0 or (command != commands[k - 1]).any():
            obs = set_commands(env, command)
        step = env.step(act(obs))
        obs = step.obs
        fallen |= step.terminated  # the env's next episode is not looked at
        critic = step.next_obs["critic"]
        start = critic.shape[1] - PRIVILEGED
        now = np.column_stack([critic[:, start : start + 2], critic[:, GYRO_Z]])
        velocity[k, ~fallen] = now[~fallen]
    env.close()
    return Rollout(commands, velocity)


def set_commands(env: MujocoBatchEnv, command: Array) -> Groups:
    """Give each env a command [n, 3] that stays; returns the observations to act on."""
    state = env.state()
    state["memory.command"][:] = command
    state["memory.next_command"][:] = NEVER
    for group in ("obs.obs", "obs.critic"):
        state[group][:, COMMAND] = command
    return env.restore(state)


def summary(rollout: Rollout) -> dict[str, float]:
    """The figures of one rollout."""
    planar, yaw = slice(0, 2), slice(2, 3)
    return {
        "falls": rollout.falls,
        "planar_rmse": round(rollout.rmse(planar), 4),
        "planar_rmse_after_1_s": round(rollout.rmse(planar, SETTLE), 4),
        "yaw_rmse": round(rollout.rmse(yaw), 4),
    }


def draw(grid: Rollout, tour: Rollout, path: Path) -> None:
    """Above: mean velocity of each episode against its command. Below: one episode through changing commands."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), constrained_layout=True)
    names = ("vx, m/s", "vy, m/s", "yaw rate, rad/s")
    for j, name in enumerate(names):
        top, bottom = axes[0, j], axes[1, j]
        asked, got = grid.command[0, :, j], np.nanmean(grid.velocity[SETTLE:, :, j], axis=0)
        limit = 1.25 * np.abs(asked).max()
        top.plot([-limit, limit], [-limit, limit], color="grey", linewidth=1)
        top.plot(asked, got, "o", markersize=3, alpha=0.6)
        top.set_xlabel(f"commanded {name}")
        top.set_ylabel("mean over the episode")
        time = np.arange(len(tour.command)) * DT
        bottom.plot(time, tour.velocity[:, 0, j], linewidth=0.8, label="measured")
        bottom.plot(time, tour.command[:, 0, j], color="black", linewidth=1.2, label="commanded")
        bottom.set_xlabel("s")
        bottom.set_ylabel(name)
        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    axes[1, 0].legend(loc="lower right")
    falls, rmse = grid.falls, grid.rmse(slice(0, 2))
    figure.suptitle(f"100 commands, 20 s each: falls {falls:.0%}, planar velocity RMSE {rmse:.2f} m/s")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())

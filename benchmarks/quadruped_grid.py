"""How well does a trained policy follow velocity commands? The judge of unilab/QuadrupedVelocity-v0.

    python benchmarks/quadruped_grid.py runs/latest --plot docs/results/quadruped.png

100 episodes of 20 s, one for each command of a grid over the whole range, with the noise, the delays and the random
robots that the run was trained with (--env-kwargs for others): vx in 5 steps, vy in 5, yaw in 4. The command stays;
starts differ. The errors are those of every step from the first on, up to a fall; a step is 20 ms, so the swing of a
gait within a stride counts as error. Then the same with pushes, and robots that are told to stand. A robot that holds
its nominal pose is measured, too, to compare with.

Every goal is printed with what was measured; exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.checkpoint import list_checkpoints
from unilab.config import laid_over
from unilab.envs.base import Groups
from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks.quadruped.commands import Commands
from unilab.envs.tasks.quadruped.measure import FRAME
from unilab.restore import load_policy

Array = NDArray[np.float64]
Act = Callable[[Groups], NDArray[np.float32]]

DT, STEPS, SETTLE = 0.02, 1000, 50
STANDING_ROBOTS = 20
PUSHES = {"speed": 0.5, "every_s": [2.0, 4.0]}
COMMAND = slice(FRAME, FRAME + 3)  # columns of both groups
GYRO_Z = 2
PLANAR, YAW = slice(0, 2), slice(2, 3)
PRIVILEGED = 24  # last columns of the critics' group, which begin with the trunk's velocity and the feet's contacts
CONTACTS = slice(3, 7)
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
    """What n robots did under commands [steps, n, 3]; NaN from a fall on."""

    command: Array
    velocity: Array
    """[steps, n, 3] vx, vy in m/s, yaw rate in rad/s, in the trunk's axes."""
    contact: Array
    """[steps, n, 4] 1 where a foot touches the ground."""
    target_change: Array
    """[steps, n] rad, mean over the joints, from the step before."""

    @property
    def falls(self) -> float:
        """Share of envs that fell."""
        return float(np.isnan(self.velocity[-1, :, 0]).mean())

    def drift(self) -> float:
        """m/s, mean over robots of how fast they left their place."""
        return float(np.linalg.norm(np.nanmean(self.velocity[:, :, :2], axis=0), axis=1).mean())

    def duty(self) -> list[float]:
        """[4] share of steps in which a foot is on the ground."""
        return [float(share) for share in np.nanmean(self.contact, axis=(0, 1))]

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
    meta = json.loads((path / "meta.json").read_text())  # a run that goes on may replace the checkpoint meanwhile
    env_cfg = replace(cfg.env, env_kwargs=laid_over(judged_kwargs(cfg.env.env_kwargs), args.env_kwargs))
    grid = np.tile(command_grid(env_cfg), (STEPS, 1, 1))
    mine = play(env_cfg, policy.act, grid, args.seed)
    pushing = replace(env_cfg, env_kwargs=env_cfg.env_kwargs | {"pushes": PUSHES})
    pushed = play(pushing, policy.act, grid, args.seed)
    told_to_stand = play(env_cfg, policy.act, np.zeros((STEPS, STANDING_ROBOTS, 3)), args.seed)
    figures = {"checkpoint": path.name, **summary(mine)}
    figures |= {"survive_pushes": 1 - pushed.falls, "drift": told_to_stand.drift()}
    standing = play(env_cfg, stand, grid, args.seed)
    figures |= {f"standing_{name}": standing.rmse(part) for name, part in (("planar", PLANAR), ("yaw", YAW))}
    figures |= {"env_steps": meta["env_steps"], "wall_time_min": meta["wall_time_s"] / 60}
    print(json.dumps(figures, indent=1))
    good = print_goals(figures)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    if args.plot:
        rounds = np.repeat(np.array(TOUR, float), round(TOUR_S / DT), axis=0)[:, None]
        draw(mine, play(env_cfg, policy.act, rounds, args.seed), args.plot)
    return 0 if good else 1


def print_goals(figures: dict[str, Any]) -> bool:
    """One line a goal; returns whether all are met."""
    duty = figures["duty"]
    goals = [
        ("planar velocity RMSE", figures["planar_rmse"], "<= 0.15 m/s", figures["planar_rmse"] <= 0.15),
        ("yaw rate RMSE", figures["yaw_rmse"], "<= 0.2 rad/s", figures["yaw_rmse"] <= 0.2),
        ("falls", figures["falls"], "<= 2 %", figures["falls"] <= 0.02),
        ("survive pushes of 0.5 m/s", figures["survive_pushes"], ">= 95 %", figures["survive_pushes"] >= 0.95),
        ("drift when told to stand", figures["drift"], "< 0.05 m/s", figures["drift"] < 0.05),
        ("least duty of a foot", min(duty), ">= 0.4", min(duty) >= 0.4),
        ("largest duty of a foot", max(duty), "<= 0.75", max(duty) <= 0.75),
        ("change of targets in a step", figures["target_change"], "<= 0.1 rad", figures["target_change"] <= 0.1),
    ]
    for name, value, goal, holds in goals:
        print(f"{'met   ' if holds else 'missed'}  {name}: {value:.3f}, {goal}")
    return all(holds for *_, holds in goals)


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
    contact = np.full((*commands.shape[:2], 4), np.nan)
    target_change = np.full(commands.shape[:2], np.nan)
    fallen = np.zeros(commands.shape[1], np.bool_)
    before, reach = np.zeros((commands.shape[1], 12), np.float32), env.task.scene.reach
    for k, command in enumerate(commands):
        if k == 0 or (command != commands[k - 1]).any():
            obs = set_commands(env, command)
        action = act(obs)
        step = env.step(action)
        obs = step.obs
        fallen |= step.terminated  # the env's next episode is not looked at
        critic = step.next_obs["critic"]
        start = critic.shape[1] - PRIVILEGED
        now = np.column_stack([critic[:, start : start + 2], critic[:, GYRO_Z]])
        velocity[k, ~fallen] = now[~fallen]
        contact[k, ~fallen] = critic[~fallen, start:][:, CONTACTS]
        target_change[k, ~fallen] = (np.abs(action - before) * reach).mean(axis=1)[~fallen]
        before = action
    env.close()
    return Rollout(commands, velocity, contact, target_change)


def set_commands(env: MujocoBatchEnv, command: Array) -> Groups:
    """Give each env a command [n, 3] that stays; returns the observations to act on."""
    state = env.state()
    state["memory.command"][:] = command
    state["memory.next_command"][:] = NEVER
    for group in ("obs.obs", "obs.critic"):
        state[group][:, COMMAND] = command
    return env.restore(state)


def summary(rollout: Rollout) -> dict[str, Any]:
    """The figures of one rollout."""
    return {
        "falls": rollout.falls,
        "planar_rmse": rollout.rmse(PLANAR),
        "planar_rmse_after_1_s": rollout.rmse(PLANAR, SETTLE),
        "yaw_rmse": rollout.rmse(YAW),
        "duty": rollout.duty(),
        "target_change": float(np.nanmean(rollout.target_change)),
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

"""How fast does one process step 64 envs, next to the physics alone, to Gymnasium's SyncVectorEnv and to envpool?

A call steps all envs through one recorded stretch of actions: real steps with observations, rewards and resets. The
physics steps `mujoco.batch.Batch` through the same states that the native env has in that stretch, one thread. envpool
is measured where it is installed. Run with OMP_NUM_THREADS=1 on an idle machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv
from harness import interleaved, report
from mujoco.batch import Batch

from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig, make_env
from unilab.seeding import env_seed

N = 64
WARM_STEPS = 100  # into the episodes, so that the stretch holds states of all kinds
STRETCH = {"HalfCheetah-v5": 60, "Ant-v5": 20, "Humanoid-v5": 20}
REPEATS = 11
Case = Callable[[], object]


def main() -> int:
    """All cases of a task in turn, task by task."""
    results: dict[str, dict[str, float]] = {}
    claims: dict[str, tuple[float, float]] = {}
    for env_id, steps in STRETCH.items():
        seconds = interleaved(cases(env_id, steps), repeats=REPEATS, calls=1, warmup=1)
        rates = {name: N * steps / values for name, values in seconds.items()}
        for name, values in rates.items():
            low, median, high = np.percentile(values, [25, 50, 75])
            results[f"{env_id} {name}"] = {"env_steps_per_s": float(median), "q25": float(low), "q75": float(high)}
        claims |= claims_of(env_id, {name: float(np.median(values)) for name, values in seconds.items()})
    return report("envs", results, claims)


def cases(env_id: str, steps: int) -> dict[str, Case]:
    """What is timed, by name."""
    found = {f"native, {threads} threads": native(env_id, steps, threads) for threads in (1, 2)}
    found["physics, 1 threads"] = physics(env_id, steps)
    found["SyncVectorEnv"] = sync_vector(env_id, steps)
    if find_spec("envpool"):
        found |= {f"envpool, {threads} threads": envpool(env_id, steps, threads) for threads in (1, 2)}
    return found


def claims_of(env_id: str, s: dict[str, float]) -> dict[str, tuple[float, float]]:
    """(measured, allowed) ratios of times; a time may be at most 1/x of one that must be x times slower."""
    one, two = s["native, 1 threads"], s["native, 2 threads"]
    share = 0.75 if env_id == "HalfCheetah-v5" else 0.80
    claims = {
        f"{env_id}: time / physics only, 1 thread": (one / s["physics, 1 threads"], 1 / share),
        f"{env_id}: time with 2 threads / with 1": (two / one, 1 / 1.4),
    }
    peers = {"HalfCheetah-v5": (1.8, 2.5, 1.0), "Ant-v5": (1.3, 2.1, 0.85)}
    if env_id in peers:
        sync_one, sync_two, pool = peers[env_id]
        claims[f"{env_id}: time / SyncVectorEnv, 1 thread"] = (one / s["SyncVectorEnv"], 1 / sync_one)
        claims[f"{env_id}: time / SyncVectorEnv, 2 threads"] = (two / s["SyncVectorEnv"], 1 / sync_two)
        for threads, ours in ((1, one), (2, two)):
            if f"envpool, {threads} threads" in s:
                ratio = ours / s[f"envpool, {threads} threads"]
                claims[f"{env_id}: time / envpool, {threads} threads"] = (ratio, 1 / pool)
    return claims


def native(env_id: str, steps: int, threads: int) -> Case:
    """The native env, put back to the start of the stretch by each call."""
    env, actions = warm_native(env_id, steps, threads)
    start = env.state()

    def run() -> None:
        env.restore(start)
        for action in actions:
            env.step(action)

    return run


def physics(env_id: str, steps: int) -> Case:
    """Nothing but the substeps, from the states of the native env."""
    env, actions = warm_native(env_id, steps, 1)
    states, controls = [], []
    for action in actions:
        states.append(env.state()["engine"])
        env.step(action)
        controls.append(env._scale(action, 0, 0).astype(np.float64))
    batch = Batch(env.sim.model, N, 1)
    frame_skip = env._task.frame_skip
    ctrl = batch.bind("ctrl")

    def run() -> None:
        for state, control in zip(states, controls, strict=True):
            batch.state[:] = state
            ctrl[:] = control
            batch.step(nstep=frame_skip)

    return run


def sync_vector(env_id: str, steps: int) -> Case:
    """Gymnasium's own vector env."""
    env = SyncVectorEnv([lambda: gym.make(env_id)] * N)
    env.reset(seed=[env_seed(0, i) for i in range(N)])
    return stepped(lambda action: env.step(action), env.single_action_space, steps)


def envpool(env_id: str, steps: int, threads: int) -> Case:
    """envpool in synchronous mode."""
    import envpool as package

    env = package.make_gymnasium(env_id, num_envs=N, env_seed=[env_seed(0, i) for i in range(N)], num_threads=threads)
    env.reset()
    return stepped(lambda action: env.step(action.astype(np.float64)), env.action_space, steps)


def stepped(step: Callable[[np.ndarray], object], space: Any, steps: int) -> Case:
    """Warm steps, then calls that step on with the stretch's actions."""
    high = space.high
    for action in actions_of(len(high), WARM_STEPS):
        step(action * high)
    scaled = [action * high for action in actions_of(len(high), steps)]

    def run() -> None:
        for action in scaled:
            step(action)

    return run


def warm_native(env_id: str, steps: int, threads: int) -> tuple[MujocoBatchEnv, np.ndarray]:
    """An env at the start of the stretch, and the stretch's actions."""
    cfg = EnvConfig(env=env_id, backend="mujoco", num_envs=N, env_kwargs={"stagger": False})
    env = make_env(cfg, seed=0, threads=threads)
    assert isinstance(env, MujocoBatchEnv)
    env.reset()
    for action in actions_of(env.spec.action_dim, WARM_STEPS):
        env.step(action)
    return env, actions_of(env.spec.action_dim, steps)


def actions_of(dim: int, steps: int) -> np.ndarray:
    """[steps, N, dim] float32 in [-1, 1]; the same for all."""
    return np.random.default_rng(steps).uniform(-1, 1, (steps, N, dim)).astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())

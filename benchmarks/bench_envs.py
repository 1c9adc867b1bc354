"""How fast does one process step 64 envs, next to the physics alone, to Gymnasium's SyncVectorEnv and to envpool?

A call steps all envs through the next stretch of one long row of actions: real steps with observations, rewards and
resets. From the same seeds, native envs and SyncVectorEnv pass through the same states (until an episode ends, which
costs SyncVectorEnv an extra step). The physics steps `mujoco.batch.Batch` through the recorded states of the native
env, on one thread. envpool, which draws its own resets, is measured where it is installed. Run with
OMP_NUM_THREADS=1 on an idle machine.

Native envs stop MuJoCo's clock in their process (`unilab/envs/mujoco_savings.py`). The physics here has it stopped,
too, as all cases but one: SyncVectorEnv is measured with the clock as Gymnasium leaves it and with the clock stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.vector import SyncVectorEnv
from harness import interleaved, report
from mujoco.batch import Batch

from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.mujoco_savings import stop_clock
from unilab.envs.registry import EnvConfig, make_env
from unilab.seeding import env_seed

N = 64
WARM_STEPS = 100  # into the episodes, so that the first stretch holds states of all kinds
QUADRUPED = "unilab/QuadrupedVelocity-v0"
STRETCH = {"HalfCheetah-v5": 60, "Ant-v5": 20, "Humanoid-v5": 20, QUADRUPED: 20}
ACTIONS = {"HalfCheetah-v5": 6, "Ant-v5": 8, "Humanoid-v5": 17, QUADRUPED: 12}
REPEATS = 11
SYNC, SYNC_CLOCK = "SyncVectorEnv", "SyncVectorEnv, MuJoCo's clock running"
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
    if env_id == QUADRUPED:  # nobody else's
        return found
    found[SYNC] = sync_vector(env_id, steps)
    found[SYNC_CLOCK] = with_clock(sync_vector(env_id, steps))
    if find_spec("envpool"):
        found |= {f"envpool, {threads} threads": envpool(env_id, steps, threads) for threads in (1, 2)}
    return found


def claims_of(env_id: str, s: dict[str, float]) -> dict[str, tuple[float, float]]:
    """(measured, allowed) ratios of times; a time may be at most 1/x of one that must be x times slower."""
    one, two = s["native, 1 threads"], s["native, 2 threads"]
    share = 0.75 if env_id in ("HalfCheetah-v5", QUADRUPED) else 0.80
    claims = {
        f"{env_id}: time / physics only, 1 thread": (one / s["physics, 1 threads"], 1 / share),
        f"{env_id}: time with 2 threads / with 1": (two / one, 1 / 1.4),
    }
    peers = {"HalfCheetah-v5": (1.8, 2.5, 1.0), "Ant-v5": (1.3, 2.1, 0.85)}
    if env_id in peers:
        sync_one, sync_two, pool = peers[env_id]
        for sync in (SYNC, SYNC_CLOCK):
            claims[f"{env_id}: time / {sync}, 1 thread"] = (one / s[sync], 1 / sync_one)
            claims[f"{env_id}: time / {sync}, 2 threads"] = (two / s[sync], 1 / sync_two)
        for threads, ours in ((1, one), (2, two)):
            if f"envpool, {threads} threads" in s:
                ratio = ours / s[f"envpool, {threads} threads"]
                claims[f"{env_id}: time / envpool, {threads} threads"] = (ratio, 1 / pool)
    return claims


def native(env_id: str, steps: int, threads: int) -> Case:
    """The native env."""
    return stepped(warm_native(env_id, threads).step, env_id, steps)


def physics(env_id: str, steps: int) -> Case:
    """Nothing but the substeps, from the states and controls of the native env."""
    env = warm_native(env_id, 1)
    batch = Batch(env.sim.model, N, 1)
    ctrl, frame_skip = batch.bind("ctrl"), env.task.frame_skip
    recorded = []
    for stretch in stretches(env_id, steps):
        rows = []
        for action in stretch:
            state = env.state()["engine"]
            env.step(action)
            rows.append((state, env.sim.ctrl.copy()))
        recorded.append(rows)
    turns = iter(recorded)

    def run() -> None:
        for state, control in next(turns):
            batch.state[:] = state
            ctrl[:] = control
            batch.step(nstep=frame_skip)

    return run


def sync_vector(env_id: str, steps: int) -> Case:
    """Gymnasium's own vector env."""
    env = SyncVectorEnv([lambda: gym.make(env_id)] * N)
    env.reset(seed=[env_seed(0, i) for i in range(N)])
    high = env.single_action_space.high
    for action in warm_actions(env_id):
        env.step(action * high)
    return stepped(lambda action: env.step(action * high), env_id, steps)


def with_clock(case: Case) -> Case:
    """The same with MuJoCo's clock running, as it does in a process without native envs."""

    def run() -> None:
        mujoco.set_mjcb_time(None)
        case()
        stop_clock()

    return run


def envpool(env_id: str, steps: int, threads: int) -> Case:
    """envpool in synchronous mode."""
    import envpool as package

    seeds = [env_seed(0, i) for i in range(N)]
    env = package.make_gymnasium(env_id, num_envs=N, env_seed=seeds, num_threads=threads)
    env.reset()
    high = env.action_space.high.astype(np.float64)
    for action in warm_actions(env_id):
        env.step(action * high)
    return stepped(lambda action: env.step(action * high), env_id, steps)


def stepped(step: Callable[[np.ndarray], object], env_id: str, steps: int) -> Case:
    """Calls that step through one stretch after the other."""
    turns = stretches(env_id, steps)

    def run() -> None:
        for action in next(turns):
            step(action)

    return run


def warm_native(env_id: str, threads: int) -> MujocoBatchEnv:
    """A native env at the start of the first stretch."""
    cfg = EnvConfig(env=env_id, backend="mujoco", num_envs=N, env_kwargs={"stagger": False})
    env = make_env(cfg, seed=0, threads=threads)
    assert isinstance(env, MujocoBatchEnv)
    env.reset()
    for action in warm_actions(env_id):
        env.step(action)
    return env


def warm_actions(env_id: str) -> np.ndarray:
    """[WARM_STEPS, N, dim] float32 in [-1, 1]; the same for all."""
    return np.random.default_rng(0).uniform(-1, 1, (WARM_STEPS, N, ACTIONS[env_id])).astype(np.float32)


def stretches(env_id: str, steps: int) -> Iterator[np.ndarray]:
    """A stretch for the warm-up call and for each repeat, [steps, N, dim] each; the same for all."""
    rng = np.random.default_rng(1)
    shape = (REPEATS + 1, steps, N, ACTIONS[env_id])
    return iter(rng.uniform(-1, 1, shape).astype(np.float32))


if __name__ == "__main__":
    sys.exit(main())

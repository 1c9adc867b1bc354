"""What does an update cost by its settings, and an env step by num_envs? CPU time, which other programs disturb little.

    python benchmarks/bench_settings.py

One thread, HalfCheetah-v5, SAC as in configs/sac.yaml. docs/tuning.md has the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_learner, make_policy
from unilab.budget import keep_freed_memory
from unilab.config import TrainConfig, load_file, preset_path
from unilab.envs.registry import make_env, probe
from unilab.spec import Minibatch

CFG = load_file(preset_path("sac", None), TrainConfig())
SPEC = probe(CFG.env)
REPEATS = 3


def main() -> None:
    """Print one line a setting."""
    torch.set_num_threads(1)
    keep_freed_memory()
    print("ms of CPU an update:")
    for name, batch, change in (
        ("batch_size 256 (default)", 256, {}),
        ("batch_size 64", 64, {}),
        ("batch_size 1024", 1024, {}),
        ("hidden 64 64", 256, {"hidden": (64, 64)}),
        ("policy_delay 1", 256, {"policy_delay": 1}),
    ):
        print(f"  {name:26} {1e3 * update_s(batch, change):8.2f}")
    print("us of CPU an env step (act, env):")
    for num_envs in (1, 8, 32):
        act_s, env_s = env_step_s(num_envs)
        print(f"  num_envs {num_envs:<17} {1e6 * act_s:8.1f} {1e6 * env_s:8.1f}")


def update_s(batch: int, change: dict[str, object]) -> float:
    """Seconds of CPU of one update, the best of three."""
    learner = make_learner("sac", SPEC, replace(CFG.learner, **change), CFG.sac, seed=0, device="cpu")
    rng = torch.Generator().manual_seed(0)
    obs, next_obs, action = (
        torch.randn(batch, n, generator=rng) for n in (SPEC.obs_dim, SPEC.obs_dim, SPEC.action_dim)
    )
    reward, zeros = torch.randn(batch, generator=rng), torch.zeros(batch)
    rows = Minibatch(obs, action.tanh(), reward, next_obs, zeros, zeros, obs, next_obs)
    return fastest(lambda: learner.update(rows), 20)


def env_step_s(num_envs: int) -> tuple[float, float]:
    """Seconds of CPU of one env step: the policy's share and the env's."""
    env = make_env(replace(CFG.env, num_envs=num_envs), seed=0, spec=SPEC)
    policy = make_policy(PolicySpec(algo="sac", env=SPEC, learner=CFG.learner, algo_config=CFG.sac), seed=0, index=0)
    obs, ended = env.reset(), np.zeros(num_envs, np.bool_)
    action = policy.explore(obs, ended)
    act_s = fastest(lambda: policy.explore(obs, ended), 100) / num_envs
    env_s = fastest(lambda: env.step(action), 100) / num_envs
    env.close()
    return act_s, env_s


def fastest(work: Callable[[], object], count: int) -> float:
    """Seconds of CPU of one call, the best of ``REPEATS`` means over ``count`` calls."""
    work()
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(count):
            work()
        best = min(best, (time.process_time() - began) / count)
    return best


if __name__ == "__main__":
    main()

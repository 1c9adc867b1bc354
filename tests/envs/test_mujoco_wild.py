"""Whatever the actions: numbers stay finite, memory stays flat, and thread counts change no bit."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from unilab.envs.finite import check_finite, check_finite_reset
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import TASKS

NATIVE = [env_id for env_id, entry in TASKS.items() if isinstance(entry, str)]
FALLERS = ("Hopper-v5", "Walker2d-v5", "Humanoid-v5", "InvertedPendulum-v5")
MIB = 2**20


def rss_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def play(env_id, n, rounds, threads):
    """A digest of all that the env gave, the episodes ended, and how far memory grew after the first fifth."""
    env = make_env(EnvConfig(env=env_id, backend="mujoco", num_envs=n), seed=4, threads=threads)
    rng, digest, ends, early = np.random.default_rng(0), hashlib.sha256(), 0, 0
    steps = np.zeros(n, np.int64)
    obs = env.reset()
    check_finite_reset(obs, 0, steps)
    for k in range(rounds):
        # Full force in any direction most of the time, far beyond the bounds at times.
        action = rng.choice(np.float32([-1e6, -1, -1, 0.3, 1, 1, 1e6]), (n, env.spec.action_dim))
        step = env.step(action)
        steps += 1
        check_finite(step, 0, steps)
        for array in (*step.obs.values(), *step.next_obs.values(), step.reward, step.terminated, step.truncated):
            digest.update(array)
        for name in env.spec.metric_names:
            digest.update(step.metrics[name])
        ends += int((step.terminated | step.truncated).sum())
        early = rss_bytes() if k == rounds // 5 else early
    return digest.hexdigest(), ends, rss_bytes() - early


@pytest.mark.parametrize("env_id", NATIVE)
def test_wild_actions_give_finite_numbers_and_the_same_bits_with_any_threads(env_id):
    one, ends, _ = play(env_id, n=5, rounds=80, threads=1)
    two, _, _ = play(env_id, n=5, rounds=80, threads=2)

    assert one == two
    assert ends or env_id not in FALLERS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("env_id", NATIVE)
def test_100_000_wild_steps_keep_memory_flat(env_id):
    n, rounds = 64, 1563
    assert n * rounds >= 100_000
    one, ends, grown = play(env_id, n, rounds, threads=1)
    two, _, _ = play(env_id, n, rounds, threads=2)

    assert one == two
    assert ends >= n
    assert grown < 4 * MIB

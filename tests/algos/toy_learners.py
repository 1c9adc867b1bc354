"""Small learners and synthetic minibatches for the tests next to this file."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unilab.algos.base import LearnerConfig, Policy, PolicySpec
from unilab.algos.compiled import EAGER, Compute
from unilab.algos.learner import Learner
from unilab.algos.registry import ALGORITHMS, make_learner, make_policy
from unilab.spec import EnvSpec, Minibatch, ReturnStats

ALGOS = tuple(ALGORITHMS)
SMALL = LearnerConfig(hidden=(16, 16), learning_rate=1e-3)


def env_spec(obs_dim: int = 3, action_dim: int = 2, critic_dim: int = 0) -> EnvSpec:
    return EnvSpec(
        env_id="toy",
        obs_dim=obs_dim,
        action_dim=action_dim,
        action_low=(-1.0,) * action_dim,
        action_high=(1.0,) * action_dim,
        critic_dim=critic_dim,
    )


def learner(
    algo: str,
    cfg: LearnerConfig = SMALL,
    *,
    env: EnvSpec | None = None,
    seed: int = 0,
    compute: Compute = EAGER,
    **options: Any,
) -> Any:
    """A learner on the CPU for a run of 10 updates; ``options`` go into the algorithm's own config."""
    config = ALGORITHMS[algo].config(**options)
    made: Learner = make_learner(
        algo, env or env_spec(), cfg, config, seed=seed, device="cpu", total_updates=10, compute=compute
    )
    return made


def policy(
    algo: str,
    cfg: LearnerConfig = SMALL,
    *,
    env: EnvSpec | None = None,
    seed: int = 0,
    index: int = 0,
    **options: Any,
) -> Policy:
    config = ALGORITHMS[algo].config(**options)
    spec = PolicySpec(algo=algo, env=env or env_spec(), learner=cfg, algo_config=config)
    return make_policy(spec, seed=seed, index=index)


def minibatch(seed: int = 0, rows: int = 32, *, env: EnvSpec | None = None) -> Minibatch:
    """Random rows: a third terminated, a third truncated, some both."""
    env = env or env_spec()
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = (torch.randn(rows, env.obs_dim, generator=g) * 2.0 + 0.5 for _ in range(2))
    critic_obs, next_critic_obs = obs, next_obs
    if env.critic_dim:
        critic_obs, next_critic_obs = (torch.randn(rows, env.critic_dim, generator=g) for _ in range(2))
    return Minibatch(
        obs=obs,
        action=torch.rand(rows, env.action_dim, generator=g) * 2.0 - 1.0,
        reward=torch.randn(rows, generator=g),
        next_obs=next_obs,
        terminated=torch.rand(rows, generator=g) < 0.33,
        truncated=torch.rand(rows, generator=g) < 0.33,
        critic_obs=critic_obs,
        next_critic_obs=next_critic_obs,
    )


def returns(seed: int = 0) -> ReturnStats:
    """Statistics of a chunk's discounted returns."""
    return ReturnStats(count=8, mean=float(seed), m2=32.0 + seed, peak=3.0 + seed)


def flat(state: Any, prefix: str = "") -> dict[str, Tensor]:
    """Leaves of a learner's state by dotted name, numbers as tensors, strings left out."""
    leaves: dict[str, Tensor] = {}
    for key, value in state.items():
        if isinstance(value, dict):
            leaves |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, str):
            leaves[f"{prefix}{key}"] = torch.as_tensor(value).clone()
    return leaves


def same_state(one: Any, other: Any) -> bool:
    """Whether two learners' states agree bit by bit."""
    a, b = flat(one), flat(other)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)

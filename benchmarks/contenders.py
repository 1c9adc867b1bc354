"""Who runs in ``bench_time_to_return.py``: unilab and its peers, with whose settings, and at which precision.

``same recipe``: the settings that RL Zoo publishes for the peer and the env, unilab with the same ones.
``best recipe``: what we know to be fastest on a machine of a few cores, for each. Peers get what unilab's default has
where they can: 8 envs, as many updates as env steps in one call, learning rate 1e-3, an actor step at every second
update and layer normalisation where the library has them; and once more, ``fast``, what ``--preset fast`` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from peers import Peer

from unilab.algos.compiled import Precision, fast_bf16

Recipe = Literal["same recipe", "best recipe"]

# RL Zoo, hyperparams/{sac,crossq,ppo}.yml; an older HalfCheetah there. Another env gets the library's defaults.
PUBLISHED_SAC: dict[str, dict[str, Any]] = {
    "HalfCheetah-v5": {"learning_starts": 10_000},
    "Pendulum-v1": {"learning_rate": 1e-3},
}
PUBLISHED_CROSSQ: dict[str, dict[str, Any]] = {
    "HalfCheetah-v5": {"learning_rate": 1e-3, "learning_starts": 5_000, "policy_delay": 3},
    "Pendulum-v1": {"policy_delay": 2},
}
PUBLISHED_CROSSQ_CRITIC = {"HalfCheetah-v5": [2048, 2048], "Pendulum-v1": [256, 256]}
PUBLISHED_PPO = {
    "HalfCheetah-v5": Peer(
        library="sb3",
        algo="PPO",
        normalize=True,
        relu=True,
        settings={
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
        },
        policy={"log_std_init": -2, "ortho_init": False, "net_arch": {"pi": [256, 256], "vf": [256, 256]}},
    ),
    "Pendulum-v1": Peer(
        library="sb3",
        algo="PPO",
        num_envs=4,
        settings={
            "n_steps": 1024,
            "gamma": 0.9,
            "gae_lambda": 0.95,
            "n_epochs": 10,
            "ent_coef": 0.0,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is run on an env unless the command says otherwise."""

    threshold: float  # of the mean return
    total_steps: int  # of a run with an update for each of them
    every: int  # env steps between its snapshots
    episodes: int  # of an evaluation
    limit_s: float


TASKS = {
    "HalfCheetah-v5": Task(threshold=5000, total_steps=200_000, every=2_500, episodes=10, limit_s=1200),
    "Pendulum-v1": Task(threshold=-200, total_steps=20_000, every=500, episodes=20, limit_s=300),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A program and its settings."""

    name: str
    recipe: Recipe
    precision: Precision  # of matrix products
    options: tuple[str, ...] = ()  # of scripts/train.py, where there is no peer
    peer: Peer | None = None
    spread: int = 1  # takes so many times as many env steps in the same time, as PPO does: a task's steps times this


def contenders(env: str) -> list[Contender]:
    """All for an env, in the order in which they take turns.

    Where this processor is fast at bfloat16, unilab's matrix products are in it, and a row with float32 stands beside.
    """
    products: Precision = "bf16" if fast_bf16(torch.device("cpu")) else "fp32"
    return [*_same_recipe(env, products), *_best_recipe(env, products)]


def pick(all_of_them: Sequence[Contender], names: Sequence[str]) -> list[Contender]:
    """Those whose names begin with one of ``names``; all without names.

    Raises:
        SystemExit: nobody's does.
    """
    for name in names:
        if not any(one.name.startswith(name) for one in all_of_them):
            raise SystemExit(f"no contender begins with {name!r}; there are {', '.join(c.name for c in all_of_them)}")
    return [one for one in all_of_them if not names or one.name.startswith(tuple(names))]


def _same_recipe(env: str, products: Precision) -> list[Contender]:
    sac, crossq = PUBLISHED_SAC.get(env, {}), PUBLISHED_CROSSQ.get(env, {})
    critic = PUBLISHED_CROSSQ_CRITIC.get(env, [1024, 1024])
    nets = {"net_arch": {"pi": [256, 256], "qf": critic}}
    ours = ("--algo", "sac", "--preset", "sb3", *_options(sac))
    wide = ("--algo", "crossq", "--num-envs", "1", "--critic-hidden", *map(str, critic))
    wide += _options({"learning_starts": 100, **crossq})
    return [
        _ours("unilab-sac-sb3-fp32", "same recipe", "fp32", ours),
        *([_ours("unilab-sac-sb3-bf16", "same recipe", "bf16", ours)] if products == "bf16" else []),
        _peer("sb3-sac", "same recipe", Peer(library="sb3", algo="SAC", settings=sac)),
        _peer("sbx-sac", "same recipe", Peer(library="sbx", algo="SAC", settings=sac)),
        _ours("unilab-crossq-published", "same recipe", products, wide),
        _peer("sbx-crossq", "same recipe", Peer(library="sbx", algo="CrossQ", settings=crossq, policy=nets)),
        _peer("sb3-ppo", "same recipe", PUBLISHED_PPO.get(env, Peer(library="sb3", algo="PPO"))),
    ]


def _best_recipe(env: str, products: Precision) -> list[Contender]:
    together = {"learning_rate": 1e-3, "learning_starts": 1000, "gradient_steps": 8}
    small: Mapping[str, Any] = {"net_arch": [64, 64]} if env == "Pendulum-v1" else {}
    # A compiled update wins back what compiling takes on the long task only.
    eager = ("--compile", "off") if small else ()
    narrow = ("--hidden", "64", "64", *eager) if small else ()
    precision: Precision = "fp32" if small else products
    beside = [_ours("unilab-best-sac-fp32", "best recipe", "fp32", ("--algo", "sac"))] if precision == "bf16" else []
    many = {"library": "sbx", "num_envs": 8}
    width = {"net_arch": small.get("net_arch", [256, 256])}
    fast: tuple[Contender, ...] = ()
    if env == "HalfCheetah-v5":
        ours = ("--algo", "crossq", "--preset", "fast")
        fast = (_ours("unilab-fast-crossq", "best recipe", "fp32", ours, spread=4), _fast_peer())
    return [
        *fast,
        _ours("unilab-best-sac", "best recipe", precision, ("--algo", "sac", *narrow)),
        *beside,
        _ours("unilab-best-crossq", "best recipe", precision, ("--algo", "crossq", *narrow)),
        _ours("unilab-best-flashsac", "best recipe", precision, ("--algo", "flashsac", *eager)),
        _peer(
            "sb3-best-sac", "best recipe", Peer(library="sb3", algo="SAC", num_envs=8, settings=together, policy=small)
        ),
        _peer(
            "sbx-best-sac",
            "best recipe",
            Peer(**many, algo="SAC", settings=together | {"policy_delay": 2}, policy={"layer_norm": True, **small}),
        ),
        _peer("sbx-best-crossq", "best recipe", Peer(**many, algo="CrossQ", settings=together, policy=width)),
        _peer(
            "sb3-best-ppo",
            "best recipe",
            Peer(library="sb3", algo="PPO", num_envs=8, normalize=True, settings={"n_steps": 256, **_short_gamma(env)}),
        ),
    ]


def _fast_peer() -> Contender:
    """SBX with the settings of configs/crossq_fast.yaml."""
    settings = {"learning_rate": 1e-3, "learning_starts": 15_000, "gradient_steps": 8, "batch_size": 128}
    nets = {"net_arch": {"pi": [64, 64], "qf": [64, 64]}}
    peer = Peer(library="sbx", algo="CrossQ", num_envs=32, settings=settings | {"policy_delay": 1}, policy=nets)
    return _peer("sbx-fast-crossq", "best recipe", peer, spread=4)


def _short_gamma(env: str) -> dict[str, float]:
    return {"gamma": 0.9, "learning_rate": 1e-3} if env == "Pendulum-v1" else {}


def _options(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value)))


def _ours(name: str, recipe: Recipe, precision: Precision, options: Sequence[str], *, spread: int = 1) -> Contender:
    words = (*options, "--precision", precision)
    return Contender(name=name, recipe=recipe, precision=precision, options=words, spread=spread)


def _peer(name: str, recipe: Recipe, peer: Peer, *, spread: int = 1) -> Contender:
    spread = 10 if peer.algo == "PPO" else spread
    return Contender(name=name, recipe=recipe, precision="fp32", peer=peer, spread=spread)

import dataclasses

import numpy as np
import pytest
import torch
from toy_learners import SMALL, learner, minibatch, policy, returns

from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS

# One value that differs from SMALL's or from the default, for every option there is.
LEARNER_OPTIONS = {
    "gamma": 0.5,
    "tau": 0.5,
    "learning_rate": 1e-2,
    "policy_delay": 2,
    "hidden": (8,),
    "critic_hidden": (8,),
    "norm_obs": True,
    "norm_reward": True,
    "adam_betas": (0.5, 0.9),
    "weight_decay": 0.5,
    "max_grad_norm": 1e-3,
    "lr_schedule": "linear",
    "lr_final": 0.5,
}
FALLING = dataclasses.replace(SMALL, lr_schedule="cosine")  # lr_final means something here
FALLS = {"noise_final": {"noise_schedule": "linear"}}  # and noise_final here
OPTIONS = {
    "sac": {"ent_coef": 0.2, "target_entropy": -7.0, "critic_layer_norm": True},
    "td3": {
        "exploration_noise": 0.3,
        "noise_schedule": "linear",
        "noise_final": 0.5,
        "target_noise": 0.6,
        "noise_clip": 0.05,
        "critic_layer_norm": True,
    },
    "fasttd3": {
        "noise_min": 0.3,
        "noise_max": 0.8,
        "noise_schedule": "cosine",
        "noise_final": 0.5,
        "target_noise": 0.6,
        "noise_clip": 0.0,
        "atoms": 11,
        "v_min": -3.0,
        "v_max": 7.0,
    },
    "fastsac": {
        "ent_coef": 0.2,
        "target_entropy": -7.0,
        "log_std_min": -3.0,
        "log_std_max": 1.0,
        "atoms": 11,
        "v_min": -3.0,
        "v_max": 7.0,
    },
    "flashsac": {"ent_coef": 0.2, "target_std": 0.5, "atoms": 51, "value_bound": 2.0, "noise_steps": 1},
    "crossq": {"ent_coef": 0.2, "target_entropy": -7.0, "norm_momentum": 0.5, "renorm_warmup": 0},
}
CASES = [
    (algo, name, value)
    for algo, options in OPTIONS.items()
    for name, value in (LEARNER_OPTIONS | options).items()
    if name not in ALGORITHMS[algo].without
]
WITHOUT = [(algo, name) for algo, entry in ALGORITHMS.items() for name in entry.without]


def outcome(algo: str, cfg: LearnerConfig, options) -> list[float]:
    """What three updates report, and what the policy they give does."""
    made, acting = learner(algo, cfg, **options), policy(algo, cfg, **options)
    numbers: list[float] = []
    for seed in range(3):
        rows = minibatch(seed)
        made.observe(rows.obs, None)
        made.observe_returns(returns(seed))
        numbers += [value.item() for value in made.update(rows).values()]
    acting.module.load_state_dict(made.policy_module.state_dict())
    acting.at(0.3)
    obs = {"obs": minibatch().obs.numpy()}
    first, second = (acting.explore(obs, np.zeros(32, np.bool_)) for _ in range(2))
    return numbers + first.flatten().tolist() + second.flatten().tolist()


@pytest.mark.parametrize(("algo", "name", "value"), CASES)
def test_every_option_changes_something(algo, name, value):
    base = FALLING if name == "lr_final" else SMALL
    cfg = dataclasses.replace(base, **{name: value}) if name in LEARNER_OPTIONS else base
    others = FALLS.get(name, {})
    options = others if name in LEARNER_OPTIONS else others | {name: value}

    assert outcome(algo, cfg, options) != outcome(algo, base, others)


@pytest.mark.parametrize(("algo", "name"), WITHOUT)
def test_an_option_that_an_algorithm_says_it_does_not_read_changes_nothing(algo, name):
    cfg = dataclasses.replace(SMALL, **{name: LEARNER_OPTIONS[name]})

    assert outcome(algo, cfg, {}) == outcome(algo, SMALL, {})


def test_no_option_is_missing_from_the_tables_above():
    # n_step is done where rows are written (tests/replay/test_n_step.py), symmetry needs an env that has one, and
    # privileged_encoder one with a critic group (test_privileged_encoder.py).
    assert {field.name for field in dataclasses.fields(LearnerConfig)} == LEARNER_OPTIONS.keys() | {
        "n_step",
        "symmetry",
        "privileged_encoder",
    }
    assert ALGORITHMS.keys() == OPTIONS.keys()
    for algo, entry in ALGORITHMS.items():
        assert {field.name for field in dataclasses.fields(entry.config)} == OPTIONS[algo].keys()


@pytest.mark.parametrize("ent_coef", ["auto", "auto_0.1", 0.1])
def test_the_temperature_starts_where_it_is_told_to(ent_coef):
    cfg = dataclasses.replace(SMALL, learning_rate=1e-6)

    alpha = learner("sac", cfg, ent_coef=ent_coef).update(minibatch())["ent_coef"]

    assert alpha.item() == pytest.approx(1.0 if ent_coef == "auto" else 0.1, rel=1e-4)
    assert alpha.dtype == torch.float32

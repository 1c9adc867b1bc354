import dataclasses
import pickle

import pytest
from toy_learners import ALGOS, SMALL, env_spec

from unilab.algos.base import LearnerConfig, PolicySpec
from unilab.algos.fastsac import FastSACConfig
from unilab.algos.fasttd3 import FastTD3Config
from unilab.algos.registry import ALGORITHMS, make_learner, make_policy
from unilab.algos.sac import SACConfig
from unilab.algos.td3 import TD3Config
from unilab.errors import ConfigError


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"'sacc' is unknown.*did you mean 'sac'"):
        make_learner("sacc", env_spec(), SMALL, SACConfig(), seed=0, device="cpu")
    with pytest.raises(ConfigError, match="did you mean 'td3'"):
        make_learner("TD3".lower() + "x", env_spec(), SMALL, TD3Config(), seed=0, device="cpu")
    with pytest.raises(ConfigError, match="unknown"):
        make_policy(PolicySpec(algo="", env=env_spec(), learner=SMALL, algo_config=None), seed=0, index=0)


def test_the_config_of_another_algorithm_is_refused():
    with pytest.raises(ConfigError, match="SACConfig, not a TD3Config"):
        make_learner("sac", env_spec(), SMALL, TD3Config(), seed=0, device="cpu")
    with pytest.raises(ConfigError, match="TD3Config, not a SACConfig"):
        make_policy(PolicySpec(algo="td3", env=env_spec(), learner=SMALL, algo_config=SACConfig()), seed=0, index=0)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_policy_spec_survives_pickling_and_builds(algo):
    spec = PolicySpec(algo=algo, env=env_spec(), learner=SMALL, algo_config=ALGORITHMS[algo].config())

    make_policy(pickle.loads(pickle.dumps(spec)), seed=0, index=0)


@pytest.mark.parametrize("algo", ALGOS)
def test_every_option_has_a_default_and_cannot_be_changed_later(algo):
    config = ALGORITHMS[algo].config()

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(config)[0].name, 1.0)


@pytest.mark.parametrize(
    ("cls", "bad"),
    [
        (LearnerConfig, {"gamma": 1.1}),
        (LearnerConfig, {"gamma": float("nan")}),
        (LearnerConfig, {"tau": 0.0}),
        (LearnerConfig, {"learning_rate": -1e-3}),
        (LearnerConfig, {"policy_delay": 0}),
        (LearnerConfig, {"hidden": ()}),
        (LearnerConfig, {"hidden": (256, 0)}),
        (SACConfig, {"ent_coef": "automatic"}),
        (SACConfig, {"target_entropy": "big"}),
        (TD3Config, {"exploration_noise": -0.1}),
        (TD3Config, {"target_noise": float("nan")}),
        (TD3Config, {"noise_final": 1.0, "noise_schedule": "linear"}),
        (TD3Config, {"noise_final": 0.5}),
        (TD3Config, {"noise_schedule": "linear", "exploration_noise": 0.0}),
        (TD3Config, {"noise_clip": -1.0}),
        (FastTD3Config, {"noise_min": -0.1}),
        (FastTD3Config, {"noise_max": 0.0}),
        (FastTD3Config, {"target_noise": float("inf")}),
        (FastTD3Config, {"noise_final": -0.1, "noise_schedule": "cosine"}),
        (FastTD3Config, {"noise_schedule": "cosine", "noise_min": 0.0, "noise_max": 0.0}),
        (FastTD3Config, {"atoms": 1}),
        (FastTD3Config, {"v_max": -10.0}),
        (FastTD3Config, {"v_min": float("-inf")}),
        (FastSACConfig, {"target_entropy": "big"}),
        (FastSACConfig, {"log_std_min": 0.0}),
        (FastSACConfig, {"atoms": 0}),
        (FastSACConfig, {"v_min": 10.0}),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(cls, bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        cls(**bad)

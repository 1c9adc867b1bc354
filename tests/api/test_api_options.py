"""Keyword arguments to a config: the command line's fields and defaults, SB3's names, no silent mistake."""

from pathlib import Path

import numpy as np
import pytest

from unilab import SAC, TD3, CrossQ, FlashSAC
from unilab.cli import parse
from unilab.errors import ConfigError


def config(model=SAC, env="Pendulum-v1", **fields):
    return model(env, **fields).config


@pytest.mark.parametrize(
    ("model", "algo", "preset"),
    [
        (SAC, "sac", None),
        (TD3, "td3", None),
        (CrossQ, "crossq", None),
        (FlashSAC, "flashsac", None),
        (SAC, "sac", "sb3"),
        (TD3, "td3", "sb3"),
    ],
)
def test_without_arguments_it_is_what_the_command_line_does(model, algo, preset):
    words = ["--preset", preset] if preset else []

    assert model(preset=preset).config == parse(["--algo", algo, *words])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"seed": 7}, ["--seed", "7"]),
        ({"num_envs": 3}, ["--num-envs", "3"]),
        ({"hidden": (64, 32)}, ["--hidden", "64", "32"]),
        ({"ent_coef": 0.2}, ["--ent-coef", "0.2"]),
        ({"utd": 0.5, "batch_size": 1e3}, ["--utd", "0.5", "--batch-size", "1k"]),
        ({"log_dir": Path("here"), "eval_every": 0}, ["--log-dir", "here", "--eval-every", "0"]),
        ({"env_kwargs": {"g": 9.0}}, ["--env-kwargs", '{"g": 9.0}']),
        ({"buffer_size": np.int64(500)}, ["--buffer-size", "500"]),
    ],
)
def test_a_field_goes_by_the_name_that_the_command_line_has_for_it(fields, words):
    assert config(**fields) == parse(["--env", "Pendulum-v1", *words])


def test_every_option_of_an_algorithm_needs_no_section():
    cfg = config(TD3, exploration_noise=0.3, critic_layer_norm=True)

    assert (cfg.td3.exploration_noise, cfg.td3.critic_layer_norm, cfg.sac.critic_layer_norm) == (0.3, True, False)


@pytest.mark.parametrize(
    ("sb3", "ours"),
    [
        ({"n_envs": 2}, {"num_envs": 2}),
        ({"n_steps": 3}, {"n_step": 3}),
        ({"tensorboard_log": "logs"}, {"log_dir": "logs"}),
        ({"tensorboard_log": None}, {}),
        ({"policy_kwargs": {"net_arch": [32, 32]}}, {"hidden": [32, 32]}),
        ({"policy_kwargs": {"net_arch": {"pi": [32], "qf": [32]}}}, {"hidden": [32]}),
        ({"policy_kwargs": {"net_arch": {"pi": [32], "qf": [8, 9]}}}, {"hidden": [32], "critic_hidden": [8, 9]}),
        ({"policy_kwargs": None}, {}),
        ({"learning_rate": 1e-3, "buffer_size": 900, "learning_starts": 50, "tau": 0.1, "gamma": 0.9}, None),
    ],
)
def test_names_of_sb3_mean_the_same_here(sb3, ours):
    assert config(**sb3) == config(**(sb3 if ours is None else ours))
    if ours is None:
        cfg = config(**sb3)
        found = (cfg.learner.learning_rate, cfg.replay.buffer_size, cfg.learning_starts)
        assert (*found, cfg.learner.tau, cfg.learner.gamma) == (1e-3, 900, 50, 0.1, 0.9)


def test_noise_of_sb3s_td3_has_its_names_too():
    assert config(TD3, target_policy_noise=0.3, target_noise_clip=0.4) == config(TD3, target_noise=0.3, noise_clip=0.4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: SAC("MlpPolicy", "Pendulum-v1"),
        lambda: SAC("MultiInputPolicy", "Pendulum-v1"),
        lambda: SAC(policy="MlpPolicy", env="Pendulum-v1"),
        lambda: SAC("MlpPolicy", env="Pendulum-v1"),
        lambda: SAC(env="Pendulum-v1"),
    ],
)
def test_the_policy_that_sb3_wants_first_may_be_given(call):
    assert call().config == config()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"learnin_rate": 1e-3}, "unknown argument 'learnin_rate'; did you mean 'learning_rate'"),
        ({"target_noise": 0.2}, "unknown argument 'target_noise'"),
        ({"gamma": "much"}, "gamma: 'much' is not a float"),
        ({"gamma": 2}, "gamma=2.0 cannot work"),
        ({"num_envs": 0}, "num_envs=0"),
        ({"n_envs": 2, "num_envs": 2}, "num_envs is given twice"),
        ({"train_freq": 4, "gradient_steps": 2, "n_envs": 2}, "utd=0.25"),
        ({"train_freq": 1, "num_envs": 4}, "utd=0.25"),
        ({"gradient_steps": -1}, "utd=1 is"),
        ({"train_freq": (1, "episode")}, "utd = gradient_steps"),
        ({"action_noise": None}, "SAC explores by itself"),
        ({"total_steps": 5}, r"\.learn"),
        ({"policy_kwargs": {"activation_fn": 1}}, "activation_fn"),
        ({"policy_kwargs": {"net_arch": {"pi": [1], "vf": [2]}}}, "pi .the actor's widths. and qf"),
        ({"policy": "CnnPolicy"}, "CnnPolicy"),
        ({"env_kwargs": {"x": np.zeros(2)}}, "written to config.yaml"),
        ({"preset": "sb4"}, "did you mean 'sb3'"),
        ({"eval_episodes": 0, "stop_at_return": 1.0}, "would have no effect"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(fields, said):
    with pytest.raises(ConfigError, match=said) as caught:
        config(**fields)

    assert "\n" not in str(caught.value)


def test_a_long_prefill_is_no_mistake_before_the_total_is_known():
    assert config(learning_starts=10**6).learning_starts == 10**6


def test_a_third_positional_argument_is_refused():
    with pytest.raises(ConfigError, match="one argument too many"):
        SAC("MlpPolicy", "Pendulum-v1", 1e-3)

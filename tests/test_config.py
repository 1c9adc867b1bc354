"""Files laid over configs and back, numbers as people write them, and every refusal in its words."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from unilab.algos.base import LearnerConfig
from unilab.algos.crossq import CrossQConfig
from unilab.algos.fastsac import FastSACConfig
from unilab.algos.fasttd3 import FastTD3Config
from unilab.algos.flashsac import FlashSACConfig
from unilab.algos.sac import SACConfig
from unilab.algos.td3 import TD3Config
from unilab.config import (
    EvaluationConfig,
    TrainConfig,
    check,
    dump,
    load_file,
    overlay,
    parse_count,
    preset_path,
    read_mapping,
    threads_of,
    update_gflop,
)
from unilab.envs.registry import EnvConfig
from unilab.errors import ConfigError
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig

DEFAULT = TrainConfig()


# ------------------------------------------------------------ laying values over a config


def test_values_replace_what_they_name_and_nothing_else():
    cfg = overlay(DEFAULT, {"seed": 7, "learner": {"gamma": 0.9}, "env": {"num_envs": 3}}, "x.yaml")

    assert cfg == replace(
        DEFAULT, seed=7, learner=replace(DEFAULT.learner, gamma=0.9), env=replace(DEFAULT.env, num_envs=3)
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"total_step": 5}, r"x\.yaml: unknown key 'total_step'; did you mean 'total_steps'\?"),
        ({"learner": {"gama": 0.9}}, r"x\.yaml: learner: unknown key 'gama'; did you mean 'gamma'\?"),
        ({"zzz": 1}, r"x\.yaml: unknown key 'zzz'$"),
        ({1: 2}, r"x\.yaml: unknown key 1"),
        ({"learner": 0.9}, r"x\.yaml: learner must be a mapping, not 0\.9"),
        ({"learner": None}, r"x\.yaml: learner must be a mapping, not None"),
    ],
)
def test_an_unknown_key_is_named_with_its_file_and_the_nearest_known_one(values, message):
    with pytest.raises(ConfigError, match=message):
        overlay(DEFAULT, values, "x.yaml")


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        ({"seed": 3.0}, "seed", 3),
        ({"total_steps": "1e6"}, "total_steps", 1_000_000),
        ({"total_steps": "64k"}, "total_steps", 64_000),
        ({"threads": "auto"}, "threads", "auto"),
        ({"threads": 4}, "threads", 4),
        ({"name": None}, "name", None),
        ({"name": "a"}, "name", "a"),
        ({"log_dir": "elsewhere"}, "log_dir", Path("elsewhere")),
        ({"trace": True}, "trace", True),
    ],
)
def test_values_become_what_their_field_holds(values, field, expected):
    value = getattr(overlay(DEFAULT, values, "x.yaml"), field)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("values", "section", "expected"),
    [
        ({"learner": {"learning_rate": "1e-3"}}, "learner", LearnerConfig(learning_rate=1e-3)),
        ({"learner": {"hidden": [64, "32"]}}, "learner", LearnerConfig(hidden=(64, 32))),
        ({"learner": {"tau": 1}}, "learner", LearnerConfig(tau=1.0)),
        ({"env": {"action_bound": 2}}, "env", EnvConfig(action_bound=2.0)),
        ({"env": {"critic_keys": ["a", "b"]}}, "env", EnvConfig(critic_keys=("a", "b"))),
        (
            {"env": {"env_kwargs": {"a": [1, {"b": None}]}}},
            "env",
            EnvConfig(env_kwargs={"a": [1, {"b": None}]}),
        ),
        ({"sac": {"ent_coef": 0.2}}, "sac", SACConfig(ent_coef=0.2)),
        ({"sac": {"ent_coef": "auto_0.1"}}, "sac", SACConfig(ent_coef="auto_0.1")),
        ({"sac": {"target_entropy": -3}}, "sac", SACConfig(target_entropy=-3.0)),
        ({"replay": {"learning_starts": "auto"}}, "replay", ReplayConfig()),
        ({"replay": {"learning_starts": "1e3"}}, "replay", ReplayConfig(learning_starts=1000)),
    ],
)
def test_values_of_sections_become_what_their_field_holds(values, section, expected):
    assert getattr(overlay(DEFAULT, values, "x.yaml"), section) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": "x"}, r"x\.yaml: seed: 'x' is not a int"),
        ({"seed": 1.5}, r"seed: 1\.5 is not a int"),
        ({"seed": True}, "seed: True is not a int"),
        ({"seed": None}, "seed: None is not a int"),
        ({"seed": [1]}, r"seed: \[1\] is not a int"),
        ({"trace": 1}, "trace: 1 is not a bool"),
        ({"trace": "yes"}, "trace: 'yes' is not a bool"),
        ({"algo": 3}, "algo: 3 is not a str"),
        ({"name": 3}, "name: 3 is not a "),
        ({"threads": "all"}, "threads: 'all' is not a "),
        ({"learner": {"gamma": True}}, r"x\.yaml: learner: gamma: True is not a float"),
        ({"learner": {"gamma": "much"}}, "gamma: 'much' is not a float"),
        ({"learner": {"hidden": 64}}, "hidden: 64 is not a list"),
        ({"learner": {"hidden": [64, "wide"]}}, "hidden: 'wide' is not a int"),
        ({"env": {"vec": "threads"}}, "vec: 'threads' is not a "),
        ({"env": {"env_kwargs": [1]}}, r"env_kwargs: \[1\] is not a dict"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_file_and_place(values, message):
    with pytest.raises(ConfigError, match=message):
        overlay(DEFAULT, values, "x.yaml")


# ------------------------------------------------------------ files

EVERYTHING = TrainConfig(
    algo="td3",
    total_steps=123_456,
    seed=2**40,
    device="cuda:1",
    threads=3,
    log_dir=Path("/somewhere/else"),
    name="1e5",  # a string that looks like a number
    log_every=7,
    save_every=9,
    keep=0,
    trace=True,
    serial=True,
    env=EnvConfig(
        env="unilab/Toy-v0",
        env_kwargs={"text": "on", "number": 1.5, "none": None, "list": [1, {"deep": True}]},
        num_envs=5,
        vec="async",
        critic_keys=("a", "b"),
        action_bound=2.5,
    ),
    learner=LearnerConfig(
        gamma=0.5, tau=1e-7, learning_rate=1 / 3, policy_delay=4, hidden=(7,), norm_obs=True, norm_reward=True
    ),
    replay=ReplayConfig(buffer_size=999, learning_starts=33, batch_size=5),
    pacing=PacingConfig(utd=0.37, steps_per_tick=3, stall_limit_s=1.5),
    evaluation=EvaluationConfig(eval_episodes=0),
    sac=SACConfig(ent_coef="auto_0.1", target_entropy=-2.5, critic_layer_norm=True),
    td3=TD3Config(exploration_noise=0.0, target_noise=0.3, noise_clip=1e-3),
    flashsac=FlashSACConfig(target_std=0.5, atoms=7, noise_steps=1),
    crossq=CrossQConfig(ent_coef=0.5, norm_momentum=0.5, renorm_warmup=7),
    fasttd3=FastTD3Config(noise_min=0.0, noise_max=0.3, atoms=7, v_min=-1 / 3, v_max=9.0),
    fastsac=FastSACConfig(ent_coef=0.5, log_std_min=-1 / 3, atoms=7, v_min=-1 / 3, v_max=9.0),
)


@pytest.mark.parametrize("cfg", [DEFAULT, EVERYTHING], ids=["default", "everything"])
def test_a_dumped_config_is_read_back_as_it_was(tmp_path, cfg):
    (tmp_path / "config.yaml").write_text(dump(cfg))

    assert load_file(tmp_path / "config.yaml", DEFAULT) == cfg
    assert load_file(tmp_path / "config.yaml", EVERYTHING) == cfg


def test_a_dump_is_plain_yaml_of_everything():
    content = yaml.safe_load(dump(DEFAULT))

    assert list(content)[:3] == ["algo", "total_steps", "seed"]
    assert content["learner"]["hidden"] == [256, 256]
    assert content["log_dir"] == "runs"


def test_an_empty_file_changes_nothing(tmp_path):
    (tmp_path / "empty.yaml").write_text("# nothing\n")

    assert load_file(tmp_path / "empty.yaml", EVERYTHING) == EVERYTHING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "cannot be read"),
        ("- 1\n- 2\n", "must be a mapping of keys to values"),
        ("just text", "must be a mapping of keys to values"),
        ("total_step: 5", "unknown key 'total_step'; did you mean 'total_steps'"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "bad.yaml").write_text(text)

    with pytest.raises(ConfigError, match=rf"bad\.yaml.*{message}"):
        load_file(tmp_path / "bad.yaml", DEFAULT)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml cannot be read"):
        load_file(tmp_path / "nothing.yaml", DEFAULT)


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")

    with pytest.raises(ConfigError, match=r"binary\.yaml cannot be read"):
        load_file(tmp_path / "binary.yaml", DEFAULT)


@pytest.mark.parametrize("algo", ["sac", "td3"])
@pytest.mark.parametrize("preset", [None, "sb3"])
def test_every_preset_is_a_config_that_passes_the_checks(algo, preset):
    cfg = load_file(preset_path(algo, preset), replace(DEFAULT, algo=algo))

    check(cfg)
    assert cfg.algo == algo


def test_the_sb3_presets_are_the_hyperparameters_that_sb3_users_know():
    sac = load_file(preset_path("sac", "sb3"), DEFAULT)
    td3 = load_file(preset_path("td3", "sb3"), replace(DEFAULT, algo="td3"))

    assert (sac.learner.learning_rate, sac.learner.policy_delay, sac.learner.hidden) == (3e-4, 1, (256, 256))
    assert (sac.learner.tau, sac.learner.gamma, sac.replay.batch_size) == (0.005, 0.99, 256)
    assert (sac.env.num_envs, sac.pacing.utd, sac.learning_starts) == (1, 1.0, 100)
    assert (td3.learner.learning_rate, td3.learner.policy_delay, td3.learner.hidden) == (1e-3, 2, (400, 300))


def test_an_unknown_preset_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"no preset 'sb4' for algo=sac; did you mean 'sb3'\?; known: quadruped, sb3"):
        preset_path("sac", "sb4")


# ------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1000000", 10**6),
        ("1_000_000", 10**6),
        ("1,000,000", 10**6),
        ("1e6", 10**6),
        ("1E6", 10**6),
        ("1.5e3", 1500),
        ("1M", 10**6),
        ("64k", 64_000),
        ("64K", 64_000),
        ("2g", 2 * 10**9),
        ("1.5k", 1500),
        ("0", 0),
        ("-5", -5),
        (" 7 ", 7),
        ("3.0", 3),
        ("9007199254740993", 2**53 + 1),  # a float would lose the last digit
    ],
)
def test_whole_numbers_are_read_as_people_write_them(text, number):
    assert parse_count(text) == number


@pytest.mark.parametrize(
    "text",
    ["1.5", "1e-1", "0.0005k", "", "k", "M", "abc", "1 000", "1kk", "inf", "nan", "1/0", "1/3", "0x10", "1e"],
)
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a"):
        parse_count(text)


def test_utd_means_its_decimal_text():
    cfg = replace(DEFAULT, pacing=PacingConfig(utd=0.37))

    assert cfg.schedule().utd == Fraction(37, 100)
    assert replace(DEFAULT, pacing=PacingConfig(utd=1e-5)).schedule().utd == Fraction(1, 100_000)


@pytest.mark.parametrize(
    ("total", "starts", "expected"),
    [(60_000, "auto", 5_000), (20_000, "auto", 2_000), (60_000, 25, 25), (60_000, 0, 0)],
)
def test_auto_learning_starts_are_five_thousand_or_a_tenth(total, starts, expected):
    cfg = replace(DEFAULT, total_steps=total, replay=ReplayConfig(learning_starts=starts))

    assert cfg.learning_starts == expected


def test_the_work_of_an_update_by_hand():
    # 2 * 17 passes * 256 rows * (256 * 256 + 32 * 256) weights
    assert update_gflop(DEFAULT) == pytest.approx(2e-9 * 17 * 256 * (65_536 + 8192))


# ------------------------------------------------------------ refusals


def of(**changes):
    """The default config with values in any section."""
    sections = {
        "num_envs": "env",
        "policy_delay": "learner",
        "batch_size": "replay",
        "buffer_size": "replay",
        "learning_starts": "replay",
        "utd": "pacing",
        "steps_per_tick": "pacing",
        "stall_limit_s": "pacing",
        "start_limit_s": "pacing",
        "eval_episodes": "evaluation",
        "eval_every": "evaluation",
        "eval_at_start": "evaluation",
        "stop_at_return": "evaluation",
    }
    cfg = DEFAULT
    for name, value in changes.items():
        if section := sections.get(name):
            cfg = replace(cfg, **{section: replace(getattr(cfg, section), **{name: value})})
        else:
            cfg = replace(cfg, **{name: value})
    return cfg


def test_the_default_config_passes():
    check(DEFAULT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": "sca"}, r"algo='sca' is not known; did you mean 'sac'\?"),
        ({"total_steps": 0}, "total_steps=0 must be greater than 0"),
        ({"steps_per_tick": 0}, "steps_per_tick=0 must be greater than 0"),
        ({"stall_limit_s": 0.0}, r"stall_limit_s=0\.0 must be greater than 0"),
        ({"start_limit_s": 0.0}, r"start_limit_s=0\.0 must be greater than 0"),
        ({"stall_limit_s": float("nan")}, "stall_limit_s=nan must be greater than 0"),
        ({"batch_size": 0}, "batch_size=0 must be greater than 0"),
        ({"buffer_size": -1}, "buffer_size=-1 must be greater than 0"),
        ({"log_every": 0}, "log_every=0 must be greater than 0"),
        ({"seed": -1}, "seed=-1 must not be negative"),
        ({"save_every": -1}, "save_every=-1 must not be negative"),
        ({"keep": -1}, "keep=-1 must not be negative"),
        ({"learning_starts": -1}, "learning_starts=-1 must not be negative"),
        ({"eval_episodes": -1}, r"eval_episodes=-1 must not be negative"),
        ({"threads": 0}, "threads=0 must be greater than 0, or auto"),
        ({"threads": -2}, "threads=-2 must be greater than 0, or auto"),
        ({"utd": -1.0}, r"utd=-1\.0 must be greater than 0"),
        ({"utd": float("nan")}, "utd=nan must be greater than 0"),
        ({"utd": float("inf")}, "utd=inf must be a finite number"),
        ({"name": "a/b"}, "name='a/b' must be the name of one directory"),
        ({"name": ".."}, r"name='\.\.' must be the name of one directory"),
        ({"name": ""}, "name='' must be the name of one directory"),
        ({"total_steps": 10, "learning_starts": 10}, "total_steps=10 ends within the prefill of 10"),
        ({"buffer_size": 15, "num_envs": 8}, "buffer_size=15 is smaller than two chunks of 8 rows"),
        (
            {"td3": TD3Config(target_noise=0.3)},
            r"target_noise=0\.3 \(of td3\) would have no effect with algo=sac",
        ),
        (
            {"td3": TD3Config(noise_schedule="linear")},
            r"noise_schedule='linear' \(of td3\) would have no effect with algo=sac",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_words(changes, message):
    with pytest.raises(ConfigError, match=message):
        check(of(**changes))


def test_an_option_that_the_algorithm_does_not_read_is_refused():
    cfg = replace(DEFAULT, algo="crossq", learner=LearnerConfig(tau=0.01))

    with pytest.raises(ConfigError, match=r"tau=0\.01 would have no effect with algo=crossq"):
        check(cfg)
    check(replace(cfg, learner=LearnerConfig()))


def test_options_of_the_other_algorithm_have_no_effect_and_are_refused():
    cfg = replace(DEFAULT, algo="td3", sac=SACConfig(ent_coef=0.2, critic_layer_norm=True))

    with pytest.raises(ConfigError, match=r"ent_coef=0\.2, critic_layer_norm=True \(of sac\) would have no effect"):
        check(cfg)


@pytest.mark.parametrize(
    "changes",
    [{"gamma": 1.1}, {"tau": 0.0}, {"hidden": ()}, {"policy_delay": 0}, {"learning_rate": 0.0}, {"n_step": 0}],
)
def test_hyperparameters_that_cannot_work_are_refused_where_they_are_set(changes):
    (name,) = changes
    with pytest.raises(ConfigError, match=name):
        overlay(DEFAULT, {"learner": changes}, "x.yaml")


def test_a_learner_that_keeps_to_its_own_cores_has_no_thread_for_those_of_the_collectors(monkeypatch):
    monkeypatch.setattr("unilab.budget.usable_cores", lambda: 2)

    assert threads_of(TrainConfig()).learner == 2
    assert threads_of(TrainConfig(affinity="spread")).learner == 1
    assert threads_of(replace(TrainConfig(), pacing=PacingConfig(utd=0.01))).learner == 1


def test_a_key_that_is_given_twice_is_refused(tmp_path):
    file = tmp_path / "twice.yaml"
    file.write_text("algo: sac\nlearner:\n  gamma: 0.9\n  gamma: 0.99\n")

    with pytest.raises(ConfigError, match="gamma is given twice"):
        load_file(file, DEFAULT)
    file.write_text("base: &base {gamma: 0.9}\nlearner:\n  <<: *base\n  gamma: 0.99\n")
    assert read_mapping(file)["learner"] == {"gamma": 0.99}, "what is merged gives way, as YAML has it"


def test_a_key_of_a_section_is_told_where_it_belongs():
    with pytest.raises(ConfigError, match=r"unknown key 'batch_size'; it belongs under replay:"):
        overlay(DEFAULT, {"batch_size": 3}, "x.yaml")

"""Arguments to a config: every spelling that people try, every option that there is, no silent mistake."""

import dataclasses
import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import pytest

from unilab import cli
from unilab.algos.registry import ALGORITHMS
from unilab.cli import main, parse, train_main
from unilab.config import TrainConfig, dump, parse_keywords
from unilab.doctor.examine import DoctorOptions
from unilab.errors import ConfigError

# ------------------------------------------------------------ spellings


@pytest.mark.parametrize(
    "words",
    [
        ["--total-steps", "5000"],
        ["--total_steps", "5000"],
        ["--total-steps=5000"],
        ["--total_steps=5_000"],
        ["--total-steps", "5e3"],
        ["--total-steps", "5k"],
        ["-n", "5000"],
        ["-n=5000"],
        ["--total-timesteps", "5000"],
        ["--total_timesteps=5000"],
        ["--n-timesteps", "5000"],
    ],
)
def test_every_spelling_of_a_number_of_steps_is_the_same(words):
    assert parse(words) == replace(parse([]), total_steps=5000)


@pytest.mark.parametrize(
    ("words", "section", "name", "value"),
    [
        (["--num-envs", "3"], "env", "num_envs", 3),
        (["--num_envs=3"], "env", "num_envs", 3),
        (["--n-envs", "3"], "env", "num_envs", 3),
        (["--env.num-envs", "3"], "env", "num_envs", 3),
        (["--env.num_envs=3"], "env", "num_envs", 3),
        (["--env-id", "Pendulum-v1"], "env", "env", "Pendulum-v1"),
        (["--env.env", "Pendulum-v1"], "env", "env", "Pendulum-v1"),
        (["--lr", "1e-2"], "learner", "learning_rate", 0.01),
        (["--learner.learning-rate", "1e-2"], "learner", "learning_rate", 0.01),
        (["--hidden", "64", "32"], "learner", "hidden", (64, 32)),
        (["--pacing.utd", "0.5"], "pacing", "utd", 0.5),
        (["--replay.batch_size", "1k"], "replay", "batch_size", 1000),
        (["--sac.ent-coef", "0.2"], "sac", "ent_coef", 0.2),
        (["--ent-coef", "auto_0.2"], "sac", "ent_coef", "auto_0.2"),
        (["--target-entropy", "-3"], "sac", "target_entropy", -3.0),
        (["--eval-episodes", "2"], "evaluation", "eval_episodes", 2),
    ],
)
def test_dashes_underscores_dotted_names_and_aliases_reach_the_same_field(words, section, name, value):
    before = parse([])

    assert parse(words) == replace(before, **{section: replace(getattr(before, section), **{name: value})})


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("--total-step", "--total-steps"),
        ("--numenvs", "--num-envs"),
        ("--batchsize", "--batch-size"),
        ("--presett", "--preset"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(word, nearest):
    for words in ([word, "5"], [f"{word}=5"]):
        with pytest.raises(ConfigError, match=f"unknown option {word}; did you mean '{nearest}'"):
            parse(words)


@pytest.mark.parametrize("word", ["--env.tau", "--sac.gamma", "--learner.num-envs", "--td3.ent-coef", "--episodes"])
def test_a_name_in_the_wrong_section_is_unknown(word):
    with pytest.raises(ConfigError, match=f"unknown option {word}"):
        parse([word, "1"])


def test_the_last_of_two_values_counts():
    assert parse(["--seed", "1", "--seed", "2"]).seed == 2
    assert parse(["--algo", "sac", "--algo", "td3"]).algo == "td3"


# ------------------------------------------------------------ every option


def leaves(config=None, prefix=""):
    """Dotted names of all fields that are no section."""
    config = config or TrainConfig()
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def get(config, leaf):
    for name in leaf.split("."):
        config = getattr(config, name)
    return config


def changed(config, leaf, value):
    name, _, rest = leaf.partition(".")
    return replace(config, **{name: changed(getattr(config, name), rest, value) if rest else value})


def hint_of(leaf):
    kind = TrainConfig
    for name in leaf.split("."):
        kind = get_type_hints(kind)[name]
    return kind


SPECIAL = {
    "algo": (["td3"], "td3"),
    "device": (["cpu"], "cpu"),
    "threads": (["3"], 3),
    "on_nan": (["skip"], "skip"),
    "track": (["trackio"], "trackio"),
    "log_dir": (["elsewhere"], Path("elsewhere")),
    "init_from": (["other/run"], Path("other/run")),
    "replay_from": (["other/run"], Path("other/run")),
    "name": (["mine"], "mine"),
    "trace_ticks": (["5:9"], "5:9"),
    "env.env": (["Pendulum-v1"], "Pendulum-v1"),
    "env.backend": (["gymnasium"], "gymnasium"),
    "env.env_kwargs": (['{"a": 1}'], {"a": 1}),
    "env.vec": (["async"], "async"),
    "env.critic_keys": (["a", "b"], ("a", "b")),
    "env.action_bound": (["2.5"], 2.5),
    "compile": (["on"], "on"),
    "precision": (["bf16"], "bf16"),
    "learner.lr_schedule": (["cosine"], "cosine"),
    "learner.lr_final": (["0.5"], 0.5),
    "td3.noise_schedule": (["cosine"], "cosine"),
    "td3.noise_final": (["0.5"], 0.5),
    "fasttd3.noise_schedule": (["linear"], "linear"),
    "fasttd3.noise_final": (["0.5"], 0.5),
    "learner.adam_betas": (["0.5", "0.9"], (0.5, 0.9)),
    "learner.weight_decay": (["0.1"], 0.1),
    "learner.max_grad_norm": (["1.5"], 1.5),
    "learner.critic_hidden": (["7", "8"], (7, 8)),
    "learner.privileged_encoder": (["7", "8"], (7, 8)),
    "learner.hidden": (["64", "32"], (64, 32)),
    "replay.learning_starts": (["500"], 500),
    "replay.warmup": (["policy"], "policy"),
    "replay.sampler": (["per"], "per"),
    "sac.ent_coef": (["0.2"], 0.2),
    "sac.target_entropy": (["-2.5"], -2.5),
    "flashsac.ent_coef": (["0.2"], 0.2),
    "crossq.ent_coef": (["0.2"], 0.2),
    "crossq.target_entropy": (["-2.5"], -2.5),
    "fastsac.ent_coef": (["0.2"], 0.2),
    "fastsac.target_entropy": (["-2.5"], -2.5),
    "fastsac.log_std_max": (["1.0"], 1.0),
    "evaluation.stop_at_return": (["-150"], -150.0),
    "affinity": (["spread"], "spread"),
    "pacing.pacing": (["free"], "free"),
    "pacing.max_unspent_chunks": (["5"], 5),
    "pacing.max_policy_lag": (["3"], 3),
    "pacing.lag_action": (["wait"], "wait"),
    "pacing.cold_start_debt": (["keep"], "keep"),
}
"""Words and value of those fields for which no other value can be guessed from the type."""


def other_value(leaf, value):
    """Words for a value that differs from the present one, and that value."""
    if leaf in SPECIAL:
        return SPECIAL[leaf]
    hint = hint_of(leaf)
    if hint is int:
        return [str(value + 1)], value + 1
    if hint is float:
        return [repr(value / 2)], value / 2
    kind = "union" if get_origin(hint) is UnionType else get_args(hint) or hint
    raise AssertionError(f"{leaf} ({kind}) needs words in SPECIAL")


@pytest.mark.parametrize("leaf", list(leaves()))
def test_every_field_has_a_flag_that_changes_it_and_nothing_else(leaf):
    section, _, name = leaf.rpartition(".")
    algo = ["--algo", section] if section in ALGORITHMS else ["--trace"] if name.startswith("trace_") else []
    algo = ["--lr-schedule", "linear"] if name == "lr_final" else algo
    algo += [f"--{section}.noise-schedule", "linear"] if name == "noise_final" else []
    free = ("max_unspent_chunks", "max_policy_lag", "lag_action", "publish_interval", "cold_start_debt")
    algo += ["--pacing", "free"] if name in free else []
    algo += ["--sampler", "per"] if name.startswith("per_") else []
    algo += ["--max-policy-lag", "2"] if name == "lag_action" else []
    algo += ["--num-envs", "4"] if name == "num_collectors" else []
    before = parse(algo)
    flag = (name if section in cli.FLAT else leaf).replace("_", "-")
    if isinstance(get(before, leaf), bool):
        value = not get(before, leaf)
        after = parse([*algo, f"--{flag}" if value else _negated(flag)])
    else:
        words, value = other_value(leaf, get(before, leaf))
        after = parse([*algo, f"--{flag}", *words])

    assert get(before, leaf) != value
    if leaf == "algo":
        assert after == parse(["--algo", "td3"])
    else:
        assert after == changed(before, leaf, value)


def _negated(flag):
    """--no-x, or --section.no-x."""
    section, dot, name = flag.rpartition(".")
    return f"--{section}{dot}no-{name}"


def test_no_two_sections_share_a_flag():
    names = [
        (leaf.rpartition(".")[2] if leaf.rpartition(".")[0] in cli.FLAT else leaf).replace("_", "-")
        for leaf in leaves()
    ]

    assert len(set(names)) == len(names)


# ------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--seed", "abc"], "seed"),
        (["--seed", "1.5"], "seed"),
        (["--gamma", "much"], "gamma"),
        (["--vec", "threads"], "vec"),
        (["--trace", "maybe"], "maybe"),
        (["--env-kwargs", "nonsense"], "env-kwargs"),
        (["--env-kwargs", '{"a": '], "env-kwargs"),
        (["stray"], "stray"),
    ],
)
def test_a_malformed_value_is_refused_with_exit_code_2_and_its_name(words, hint, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(words)

    assert caught.value.code == 2
    assert hint in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gamma", "2"], "gamma=2.0"),
        (["--num-envs", "0"], "num_envs=0"),
        (["--total-steps", "0"], "total_steps=0 must be greater than 0"),
        (["--algo"], "--algo needs a value"),
        (["--algo", "sca"], r"algo='sca' is not known; did you mean 'sac'"),
        (
            ["--algo", "td3", "--ent-coef", "0.2"],
            r"ent_coef=0\.2 \(of sac\) would have no effect with algo=td3",
        ),
        (["--preset", "sb4"], "no preset 'sb4' for algo=sac; did you mean 'sb3'"),
        (["--config", "nowhere.yaml"], r"nowhere\.yaml cannot be read"),
    ],
)
def test_a_value_that_cannot_work_is_refused_in_words(words, message):
    with pytest.raises(ConfigError, match=message):
        parse(words)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], {}),
        (['{"a": 1, "b": [true, null], "c": {"d": "x"}}'], {"a": 1, "b": [True, None], "c": {"d": "x"}}),
        (["a=1", "b=true", "c=text", "d=0.5"], {"a": 1, "b": True, "c": "text", "d": 0.5}),
        (["a=1e-3", "b=-2E+5", "c=1.5e2"], {"a": 0.001, "b": -200_000.0, "c": 150.0}),
        (["a=[1, 2]", "b=null", "c=x=y", "d="], {"a": [1, 2], "b": None, "c": "x=y", "d": None}),
    ],
)
def test_keyword_arguments_are_json_or_pairs(words, value):
    assert parse_keywords(words) == value
    assert parse(["--env-kwargs", *words, "--seed", "1"]).env.env_kwargs == value


def test_a_pair_behind_an_equals_sign_is_a_pair():
    assert parse(["--env-kwargs=a=1"]).env.env_kwargs == {"a": 1}


# ------------------------------------------------------------ presets and files


def test_without_a_preset_the_algorithms_own_file_counts():
    assert parse(["--algo", "td3"]).learner.policy_delay == 2
    assert parse([]) == parse(["--algo", "sac"])


def test_a_preset_is_laid_under_the_flags():
    cfg = parse(["--algo", "td3", "--preset", "sb3", "--num-envs", "4"])

    assert cfg.learner.hidden == (400, 300)
    assert cfg.env.num_envs == 4


def test_a_preset_may_name_its_env_and_nested_options_survive_the_configs_own_file(tmp_path):
    options = {"pushes": {"speed": 0.25}, "rewards": {"slip": -0.2}, "history": 3}
    cfg = parse(["--preset", "quadruped", "--env-kwargs", json.dumps(options)])
    assert cfg.env.env == "unilab/QuadrupedVelocity-v0"

    (tmp_path / "config.yaml").write_text(dump(cfg))
    assert parse(["--config", str(tmp_path / "config.yaml")]) == cfg


def test_options_of_an_env_lie_over_those_of_the_preset_key_by_key():
    preset = parse(["--preset", "quadruped"]).env.env_kwargs
    options = {"pushes": {"speed": 0.25}, "rewards": {"slip": -0.2}, "history": 3}
    both = parse(["--preset", "quadruped", "--env-kwargs", json.dumps(options)]).env.env_kwargs

    assert both == preset | {
        "pushes": {"speed": 0.25},
        "rewards": preset["rewards"] | {"slip": -0.2},
        "history": 3,
    }
    assert preset["rewards"].keys() >= {"action_rate", "yaw"}


def test_another_env_gets_nothing_of_the_presets_env():
    assert parse(["--preset", "quadruped", "--env", "Ant-v5"]).env.env_kwargs == {}
    assert parse(["--preset", "quadruped", "--env", "Ant-v5", "--env-kwargs", "stagger=false"]).env.env_kwargs == {
        "stagger": False
    }


def test_a_dumped_config_repeats_the_run(tmp_path):
    cfg = parse(["--algo", "td3", "--seed", "5", "--hidden", "7", "--env-kwargs", "a=1", "--utd", "0.37", "--trace"])
    (tmp_path / "config.yaml").write_text(dump(cfg))

    assert parse(["--config", str(tmp_path / "config.yaml")]) == cfg
    assert parse([f"--config={tmp_path / 'config.yaml'}", "--seed", "6"]) == replace(cfg, seed=6)


def test_a_file_that_names_an_algorithm_lies_on_that_algorithms_own_file(tmp_path):
    (tmp_path / "mine.yaml").write_text("algo: td3\nseed: 9\n")

    assert parse(["--config", str(tmp_path / "mine.yaml")]) == replace(parse(["--algo", "td3"]), seed=9)


def test_a_file_wins_over_a_preset_and_a_flag_over_both(tmp_path):
    (tmp_path / "mine.yaml").write_text("env: {num_envs: 6}\n")
    words = ["--preset", "sb3", "--config", str(tmp_path / "mine.yaml")]

    assert parse(words) == changed(parse(["--preset", "sb3"]), "env.num_envs", 6)
    assert parse([*words, "--num-envs", "7"]).env.num_envs == 7


def test_the_algorithm_on_the_command_line_wins_over_that_of_the_file(tmp_path):
    (tmp_path / "mine.yaml").write_text("algo: td3\nseed: 9\n")

    cfg = parse(["--config", str(tmp_path / "mine.yaml"), "--algo", "sac"])
    assert cfg == replace(parse([]), seed=9)


# ------------------------------------------------------------ the program


def test_help_ends_with_0_and_shows_every_flag_with_its_default(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())

    assert caught.value.code == 0
    for leaf in leaves():
        section, _, name = leaf.rpartition(".")
        assert f"--{name if section in cli.FLAT else leaf}".replace("_", "-") in text
    for default in (
        "(default: 60000)",
        "(default: sac)",
        "(default: HalfCheetah-v5)",
        "--preset",
        "--config",
    ):
        assert default in text


def test_help_shows_the_defaults_of_the_chosen_algorithm_and_file(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text("seed: 424242\n")
    with pytest.raises(SystemExit):
        parse(["--config", str(tmp_path / "mine.yaml"), "--help"])

    assert "424242" in capsys.readouterr().out


def test_a_refusal_is_one_line_on_stderr_and_exit_code_2(capsys):
    assert train_main(["--total-step", "5"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "unilab: unknown option --total-step; did you mean '--total-steps'?\n"


def test_the_program_trains_examines_lists_its_usage_and_knows_no_other_command(monkeypatch, capsys):
    monkeypatch.setattr(cli, "train_main", lambda words: ("trained", words))
    monkeypatch.setattr(cli, "doctor_main", lambda words: ("examined", words))

    assert main(["train", "--seed", "3"]) == ("trained", ["--seed", "3"])
    assert main(["doctor", "--seed", "3"]) == ("examined", ["--seed", "3"])
    for words in ([], ["--help"], ["-h"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "usage: unilab train" in out
        assert "unilab doctor" in out
    assert main(["trian"]) == 2
    assert "unknown command 'trian'; did you mean 'train'?" in capsys.readouterr().err


def test_the_config_that_was_parsed_is_what_runs(monkeypatch, tmp_path):
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "run", lambda cfg, resume: seen.append(cfg) or 7)

    assert train_main(["--seed", "3"]) == 7
    assert seen == [parse(["--seed", "3"])]
    assert dataclasses.is_dataclass(seen[0])


def test_the_doctor_takes_the_options_of_a_run_and_its_own(monkeypatch, tmp_path, capsys):
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "examine", lambda cfg, options: seen.append((cfg, options)) or 2)

    assert main(["doctor", "--seed", "3", "--json", "--deadline", "9"]) == 2
    assert seen == [(parse(["--seed", "3"]), DoctorOptions(json=True, deadline_s=9.0))]
    assert main(["doctor", "--total-step", "5"]) == 2
    assert "did you mean '--total-steps'" in capsys.readouterr().err
    assert main(["doctor", "--help"]) == 0
    assert "usage: unilab doctor" in capsys.readouterr().out
    assert len(seen) == 1

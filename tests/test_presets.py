"""Sizes: what auto picks, what wins over them, and where there are none."""

import pytest
import torch

from unilab import CrossQ
from unilab.algos.registry import ALGORITHMS
from unilab.cli import parse
from unilab.config import check, dump
from unilab.errors import ConfigError
from unilab.presets import load_preset, with_size

SMALL, PAPER = (load_preset("crossq", None, size=size).learner.critic_hidden for size in ("small", "paper"))


def critics(*words):
    return parse(["--algo", "crossq", *words]).learner.critic_hidden


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithms_own_preset_passes_the_checks(algo):
    cfg = load_preset(algo, None)

    check(cfg)
    assert cfg.algo == algo
    assert parse(["--algo", algo]) == cfg


def test_the_papers_have_their_published_widths():
    assert PAPER == (2048, 2048)
    assert SMALL != PAPER
    flash = load_preset("flashsac", None, size="paper")
    assert (flash.learner.hidden, flash.learner.critic_hidden, flash.replay.batch_size) == ((128,) * 2, (256,) * 2, 512)
    assert load_preset("flashsac", None, size="small").replay.batch_size == 256


@pytest.mark.parametrize(("cuda", "auto"), [(False, SMALL), (True, PAPER)])
def test_auto_is_small_on_a_cpu_and_the_papers_on_a_gpu(monkeypatch, cuda, auto):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)

    assert critics() == critics("--size", "auto") == auto
    assert critics("--device", "cpu") == SMALL
    assert critics("--device", "cuda:1") == critics("--device=cuda") == PAPER
    assert CrossQ("Pendulum-v1").config.learner.critic_hidden == auto
    assert CrossQ("Pendulum-v1", device="cuda").config.learner.critic_hidden == PAPER


def test_a_size_that_is_asked_for_does_not_look_at_the_device():
    assert critics("--size", "paper", "--device", "cpu") == PAPER
    assert critics("--size=small", "--device", "cuda") == SMALL
    assert CrossQ("Pendulum-v1", size="paper", device="cpu").config.learner.critic_hidden == PAPER


def test_widths_on_the_command_line_win_over_any_size():
    cfg = parse(["--algo", "crossq", "--size", "paper", "--critic-hidden", "7", "--hidden", "5"])

    assert (cfg.learner.critic_hidden, cfg.learner.hidden) == ((7,), (5,))
    assert CrossQ("Pendulum-v1", size="paper", critic_hidden=(7,)).config.learner.critic_hidden == (7,)


def test_a_file_wins_over_auto_and_a_size_that_is_asked_for_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(dump(parse(["--algo", "crossq", "--size", "small"])))

    assert critics("--config", str(file), "--device", "cuda") == SMALL
    assert critics("--config", str(file), "--size", "paper") == PAPER
    file.write_text("device: cuda\n")
    assert critics("--config", str(file)) == PAPER
    assert critics("--config", str(file), "--device", "cpu") == SMALL


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algo", "crossq", "--size", "smal"], "size='smal' is not known; did you mean 'small'.*auto, small, paper"),
        (["--algo", "sac", "--size", "small"], "size=small would have no effect: sac has no sizes; use --hidden"),
        (["--preset", "sb3", "--size", "paper"], "size=paper would have no effect: sac_sb3 has no sizes"),
    ],
)
def test_a_size_that_is_not_there_is_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        parse(words)


def test_auto_is_no_size_where_there_are_none():
    assert parse(["--size", "auto"]) == parse([])


def test_from_python_a_size_without_effect_is_refused_too():
    with pytest.raises(ConfigError, match="size=paper would have no effect"):
        with_size(load_preset("td3", None), None, "paper")

"""A sweep over runs that are not trained: who is started, what is taken over, what they say together."""

import json
from dataclasses import dataclass

import pytest

from unilab.cli import parse
from unilab.config import dump
from unilab.errors import ConfigError
from unilab.sweep import sweep as module
from unilab.sweep.options import take_options

SCORES = {0: 1.0, 1: 2.0, 2: 30.0, 3: 4.0, 4: 3.0}


@dataclass
class Trainer:
    """Stands for ``Training``: writes what a run would leave, without training."""

    options: object
    codes: dict
    started: list

    def __call__(self, words):
        seed = int(words[words.index("--seed") + 1])
        self.started.append(seed)
        code = self.codes.get(seed, 0)
        leave(self.options, seed, "completed" if code == 0 else "failed")
        return type("Done", (), {"wait": lambda _: code, "signal": lambda *_: None})()


def leave(options, seed, status):
    run = options.folder / options.run_name(seed)
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(dump(options.config(seed)))
    (run / "summary.json").write_text(json.dumps({"status": status, "final_eval_mean": SCORES[seed]}))
    return run


@pytest.fixture
def start(tmp_path, monkeypatch):
    words = ["--seeds", "5", "--env", "unilab/Toy-v0", "--log-dir", str(tmp_path), "--name", "x"]
    options = take_options(words, parse)

    def begin(**codes):
        trainer = Trainer(options, {int(seed.strip("s")): code for seed, code in codes.items()}, [])
        monkeypatch.setattr(module, "Training", trainer)
        return options, trainer

    return begin


def result(options):
    return json.loads((options.folder / "x.json").read_text())


def test_all_seeds_are_trained_in_turn_and_summed_up(start, capsys):
    options, trainer = start()

    assert module.sweep(options) == 0
    assert trainer.started == [0, 1, 2, 3, 4]
    said = result(options)
    assert said["scores"] == {str(seed): score for seed, score in SCORES.items()}
    assert (said["iqm"], said["mean"], said["missing"]) == (3.0, 8.0, [])
    assert said["interval_95"][0] < 3 < said["interval_95"][1]
    assert "IQM 3 (95 % interval" in capsys.readouterr().out


def test_a_seed_that_fails_leaves_the_others_be(start):
    options, trainer = start(s1=70)

    assert module.sweep(options) == 1
    assert trainer.started == [0, 1, 2, 3, 4]
    assert result(options)["missing"] == [1]


@pytest.mark.parametrize("code", [2, 130, 143])
def test_a_refusal_or_an_interrupt_ends_the_sweep_with_what_is_there(start, code):
    options, trainer = start(s2=code)

    assert module.sweep(options) == code
    assert trainer.started == [0, 1, 2]
    assert result(options)["missing"] == [2, 3, 4]


def test_the_same_name_again_goes_on_with_what_is_missing(start):
    options, trainer = start()
    for seed in (0, 3):
        leave(options, seed, "completed")

    assert module.sweep(options) == 0
    assert trainer.started == [1, 2, 4]
    assert result(options)["iqm"] == 3.0


def test_a_directory_of_another_command_or_of_half_a_run_is_refused(start):
    options, trainer = start()
    run = leave(options, 4, "interrupted")
    with pytest.raises(ConfigError, match=r"is not complete; `unilab train --resume"):
        module.sweep(options)
    (run / "config.yaml").write_text(dump(options.config(3)))
    with pytest.raises(ConfigError, match="was run with other options"):
        module.sweep(options)

    assert trainer.started == []

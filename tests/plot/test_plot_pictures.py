"""``plot`` as it is typed, on hand-made runs."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hand_made_runs import CONFIG, make_run
from PIL import Image

from unilab.cli import plot_main
from unilab.envs.registry import EnvConfig

ROWS = [(200 * k, 100, 10.0 * k) for k in range(1, 6)]
EVALUATED = [(200 * k, 2.0 * k, 20.0 * k) for k in range(1, 6)]


@pytest.fixture
def runs(tmp_path):
    for seed in range(2):
        cfg = replace(CONFIG, seed=seed)
        make_run(tmp_path / f"runs/s{seed}", cfg, progress=ROWS, evaluated=EVALUATED if seed else ())
    return tmp_path / "runs"


def test_a_picture_has_two_panels_for_each_env(runs, tmp_path, capsys):
    assert plot_main([str(runs), "--out", str(tmp_path / "one.png")]) == 0
    make_run(runs / "hopper", replace(CONFIG, env=EnvConfig(env="Hopper-v5")), progress=ROWS)
    assert plot_main([str(runs), "--out", str(tmp_path / "two.png")]) == 0

    one, two = (np.asarray(Image.open(tmp_path / name)).shape for name in ("one.png", "two.png"))
    assert two[:2] == (2 * one[0], one[1])
    assert "training returns of 2 runs (Pendulum-v1, sac: 2 seeds)" in capsys.readouterr().out


def test_evaluations_are_drawn_where_all_runs_have_them_or_when_asked_for(runs, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out.svg")]

    assert plot_main([str(runs / "s1"), *out]) == 0
    assert "evaluation returns of 1 run" in capsys.readouterr().out
    assert plot_main([str(runs), "--source", "evaluation", *out]) == 0
    said = capsys.readouterr()
    assert "evaluation returns of 1 run" in said.out
    assert f"{runs}/s0 has no two points of evaluation yet; it is left out" in said.err
    text = (tmp_path / "out.svg").read_text()
    assert text.startswith("<?xml")


def test_a_seed_that_ended_early_is_told_because_it_cuts_the_mean(runs, tmp_path, capsys):
    make_run(runs / "short", replace(CONFIG, seed=9), progress=ROWS[:2])

    assert plot_main([str(runs), "--out", str(tmp_path / "out.png")]) == 0
    assert "the mean ends at 400 env steps, as its shortest seed does; the longest has 1,000" in capsys.readouterr().err


def test_seeds_with_no_second_in_common_are_drawn_without_a_mean_there(runs, tmp_path, capsys):
    for seed, late in ((5, 0), (6, 5_000)):
        points = [(steps, seconds + late, value) for steps, seconds, value in EVALUATED]
        make_run(runs / f"apart/s{seed}", replace(CONFIG, seed=seed), evaluated=points)

    assert plot_main([str(runs / "apart"), "--out", str(tmp_path / "out.png")]) == 0
    assert capsys.readouterr().err == (
        "unilab: Pendulum-v1, sac: no mean over seconds: one seed ends at 10, another begins at 5,002\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to draw"),
        (["nowhere"], "nowhere: there is no directory"),
        (["latest", "--log-dir", "none"], "latest: there is no directory none/latest"),
        (["RUNS", "--out", "x.pdf"], "must end in .png or .svg"),
        (["RUNS/s0", "--source", "evaluation"], "no run has two points of evaluation yet"),
        (["RUNS", "--band", "wide"], "invalid choice: 'wide'"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(runs, words, said, capsys):
    assert plot_main([word.replace("RUNS", str(runs)) for word in words]) == 2

    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_without_matplotlib_it_says_what_to_install(runs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert plot_main([str(runs)]) == 2
    assert "pip install -e '.[plot]'" in capsys.readouterr().err

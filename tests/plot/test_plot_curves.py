"""From the files of hand-made runs to numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hand_made_runs import CONFIG, make_run

from unilab.errors import ConfigError, UnilabError
from unilab.plot.band import band
from unilab.plot.curve import Curve, evaluations, find_runs, training
from unilab.plot.group import group
from unilab.replay import ReplayConfig


def one(folder):
    return find_runs([str(folder)], folder)[0]


def numbers(curve):
    return [list(map(float, values)) for values in (curve.env_steps, curve.seconds, curve.returns)]


def test_seconds_of_training_are_the_steps_since_the_prefill_over_their_speeds(tmp_path):
    run = make_run(tmp_path / "r", progress=[(200, 50, ""), (400, 100, -7), (600, 20, -5), (600, "", -4)])

    assert numbers(training(one(run))) == [[400, 600], [4, 14], [-7, -4]]


def test_evaluations_are_the_lines_that_are_whole(tmp_path):
    run = make_run(tmp_path / "r", evaluated=[(100, 1.5, -9), (200, 2.5, -8), (300, 4.0, -6)])
    with open(run / "eval.jsonl", "a") as file:
        file.write('{"env_steps": 400, "wall')

    assert numbers(evaluations(one(run))) == [[100, 200, 300], [1.5, 2.5, 4.0], [-9, -8, -6]]


def test_one_point_is_no_curve_and_a_spoilt_line_is_named(tmp_path):
    single = make_run(tmp_path / "a", evaluated=[(100, 1.5, -9)], progress=[(200, 50, -9)])
    assert evaluations(one(single)) is training(one(single)) is None

    spoilt = make_run(tmp_path / "b", evaluated=[(100, 1.5, -9)])
    (spoilt / "eval.jsonl").write_text("{}\n")
    with pytest.raises(UnilabError, match=r"eval\.jsonl line 1 is no evaluation"):
        evaluations(one(spoilt))


def test_a_folder_stands_for_its_runs_and_a_link_for_none_of_its_own(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / "env/sac" / name)
    (tmp_path / "latest").symlink_to(tmp_path / "env/sac/b")

    found = find_runs([str(tmp_path), "latest"], tmp_path)

    assert sorted(run.path.name for run in found) == ["a", "b"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="there is no run in"):
        find_runs([str(tmp_path / "none")], tmp_path)


def curve(*points):
    return Curve(*np.array(points, float).T)


LINE = curve((0, 0, 0), (1, 1, 1))


def grouped(tmp_path, **configs):
    runs = [one(make_run(tmp_path / name, cfg)) for name, cfg in configs.items()]
    return [(g.label, len(g.curves)) for g in group([(run, LINE) for run in runs])]


def test_seeds_of_one_command_are_one_curve_however_often_they_were_saved(tmp_path):
    other = replace(CONFIG, seed=1, name="x", save_every=50, trace=True)

    assert grouped(tmp_path, a=CONFIG, b=other) == [("sac", 2)]


def test_a_label_names_what_tells_curves_apart_and_nothing_else(tmp_path):
    fast = replace(CONFIG, learner=replace(CONFIG.learner, learning_rate=0.001))
    other_algo = replace(CONFIG, algo="td3")

    assert grouped(tmp_path, a=CONFIG, b=fast, c=replace(fast, seed=4), d=other_algo) == [
        ("sac, learning_rate=0.0003", 1),
        ("sac, learning_rate=0.001", 2),
        ("td3", 1),
    ]


def test_runs_of_other_versions_can_be_drawn(tmp_path):
    """One lacks a key, which is then at its default; another has one that is not known here."""
    older, newer = (make_run(tmp_path / name, CONFIG) for name in ("older", "newer"))
    text = (older / "config.yaml").read_text()
    (older / "config.yaml").write_text(text.replace("  norm_obs: false\n", ""))
    (newer / "config.yaml").write_text(text + "colour: red\n")

    runs = [(one(path), LINE) for path in (older, make_run(tmp_path / "now", replace(CONFIG, seed=2)), newer)]
    assert [(g.label, len(g.curves)) for g in group(runs)] == [("sac, colour=None", 2), ("sac, colour=red", 1)]


def test_a_config_that_is_none_is_named(tmp_path):
    run = make_run(tmp_path / "r")
    (run / "config.yaml").write_text("- 1\n")

    with pytest.raises(ConfigError, match=r"config\.yaml is not a run's config"):
        one(run)


CURVES = [curve((0, 0, 0), (10, 1, 10), (20, 2, 20)), curve((10, 2, 30), (20, 4, 30), (40, 8, 90))]


def test_the_mean_is_where_all_seeds_are_with_points_of_each(tmp_path):
    x, mean, low, high = band(CURVES, "env_steps", "range")

    assert x.tolist() == [10, 20]
    assert (mean.tolist(), low.tolist(), high.tolist()) == ([20, 25], [10, 20], [30, 30])


def test_over_wall_time_returns_are_interpolated():
    x, mean, _, _ = band([CURVES[0], curve((0, 1.5, 4), (1, 2.5, 8))], "seconds", "range")

    assert x.tolist() == [1.5, 2]
    assert mean.tolist() == [(15 + 4) / 2, (20 + 6) / 2]


def test_bands_of_other_kinds():
    assert [ends.tolist() for ends in band(CURVES, "env_steps", "std")[2:]] == [[10, 20], [30, 30]]
    assert [ends.tolist() for ends in band(CURVES, "env_steps", "interval")[2:]] == [[10, 20], [30, 30]]
    assert [ends.tolist() for ends in band(CURVES[:1], "env_steps", "interval")[2:]] == [[0, 10, 20]] * 2


def test_seeds_that_never_overlap_have_no_mean():
    assert band([curve((0, 0, 0), (10, 1, 1)), curve((20, 2, 0), (30, 3, 1))], "env_steps", "range") is None


def test_a_seed_that_went_on_stays_with_the_others(tmp_path):
    """Its config has the number that ``auto`` was when it began."""
    auto = replace(CONFIG, replay=ReplayConfig(learning_starts="auto"), total_steps=2_000)
    went_on = replace(CONFIG, replay=ReplayConfig(learning_starts=200), total_steps=2_000, seed=1)

    assert grouped(tmp_path, one=auto, two=went_on) == [("sac", 2)]

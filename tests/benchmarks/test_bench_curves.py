import json
import math
from dataclasses import asdict

import numpy as np
from contenders import Contender
from curves import Point, Run, band, draw, faster, is_enough, reached_s, table
from peers import Peer

CURVE = [Point(100, 2.0, -9.0, 1.0), Point(200, 4.0, 5.0, 1.0), Point(300, 6.0, 3.0, 1.0), Point(400, 8.0, 7.0, 1.0)]
OURS = Contender(name="ours", recipe="same recipe", precision="bf16", options=("--algo", "sac"))
FAST = Contender(name="fast", recipe="same recipe", precision="fp32", peer=Peer(library="sbx", algo="SAC"))
SLOW = Contender(name="slow", recipe="same recipe", precision="fp32", peer=Peer(library="sb3", algo="SAC"))
ALONE = Contender(name="alone", recipe="best recipe", precision="fp32")


def run(name, seed, seconds, ended="threshold"):
    curve = [Point(1, 1.0, 0.0, 0.0), Point(2, seconds, 10.0, 0.0)]
    return Run(contender=name, seed=seed, ended=ended, clock_s=seconds, held_s=0.0, load_before=0.0, curve=curve)


def test_the_time_to_a_threshold_is_that_of_the_first_snapshot_at_least_as_good():
    assert reached_s(CURVE, 5.0) == 4.0
    assert reached_s(CURVE, 5.1) == 8.0
    assert reached_s(CURVE, -20.0) == 2.0
    assert reached_s(CURVE, 7.1) == math.inf
    assert reached_s([], 0.0) == math.inf


def test_a_stored_run_is_made_again_only_if_more_was_asked_for():
    limited = run("ours", 1, 30.0, ended="limit")

    assert is_enough(limited, threshold=10.0, limit_s=60.0)  # it got there
    assert is_enough(limited, threshold=11.0, limit_s=30.0)
    assert not is_enough(limited, threshold=11.0, limit_s=31.0)
    assert not is_enough(run("ours", 1, 30.0, ended="threshold"), threshold=11.0, limit_s=1.0)
    assert is_enough(run("ours", 1, 30.0, ended="end"), threshold=11.0, limit_s=60.0)


def test_the_table_compares_medians_with_the_best_peer_of_the_same_recipe():
    seconds = {"ours": (10, 30, 20), "fast": (50, 40, 60), "slow": (99, 98, 97), "alone": (1, 1, 1)}
    runs = [run(name, seed, float(s)) for name, times in seconds.items() for seed, s in enumerate(times, 1)]

    lines, rows = table([OURS, FAST, SLOW, ALONE], runs, 10.0)

    assert rows["ours"]["median_s"] == 20
    assert rows["ours"]["times_best_peer"] == 2.5
    assert rows["fast"]["times_best_peer"] == 1.0
    assert rows["alone"]["times_best_peer"] == math.inf  # no peer has its recipe
    ours = next(line for line in lines if line.split()[:1] == ["ours"])
    assert ours.split() == ["ours", "bf16", "10.0", "30.0", "20.0", "20.0", "2.50"]


def test_a_run_that_never_got_there_counts_as_endless_in_the_median():
    runs = [run("fast", 1, 5.0), *(run("fast", seed, 5.0) for seed in (2, 3))]
    for one in runs[:2]:
        one.curve.pop()

    lines, rows = table([FAST], runs, 10.0)

    assert rows["fast"]["median_s"] == math.inf
    assert lines[-1].split() == ["fast", "fp32", "-", "-", "5.0", "-", "-"]


def test_a_ratio_to_peers_of_whom_none_got_there_is_not_a_number_unless_one_did_oneself():
    assert faster(30.0, 10.0) == 3.0
    assert faster(math.inf, 10.0) == math.inf
    assert math.isnan(faster(math.inf, math.inf))
    assert faster(10.0, math.inf) == 0.0


def test_the_band_is_as_long_as_all_seeds_last():
    first = [Point(1, 0.0, 0.0, 0.0), Point(2, 10.0, 10.0, 0.0)]
    second = [Point(1, 2.0, 4.0, 0.0), Point(2, 6.0, 12.0, 0.0)]

    time_s, mean, low, high = band([first, second], points=3)

    np.testing.assert_allclose(time_s, [2, 4, 6])
    np.testing.assert_allclose(low, [2, 4, 6])
    np.testing.assert_allclose(high, [4, 8, 12])
    np.testing.assert_allclose(mean, [3, 6, 9])
    assert band([first, []]) is None
    assert band([]) is None


def test_a_run_survives_its_json_form():
    one = run("ours", 3, 7.5)

    assert Run.of(json.loads(json.dumps(asdict(one)))) == one


def test_the_picture_holds_contenders_without_a_snapshot_too(tmp_path):
    runs = [run("ours", 1, 5.0), run("fast", 1, 5.0)]
    runs[1].curve.clear()

    draw([OURS, FAST, ALONE], runs, 10.0, tmp_path / "curves.png", "Toy")

    assert (tmp_path / "curves.png").stat().st_size > 1000

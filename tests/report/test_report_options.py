"""The command: what it takes, what it prints."""

import json

import pytest
from hand_made import write

from unilab.report.options import trace_report


def printed(capsys, *argv):
    assert trace_report([str(word) for word in argv]) == 0
    return capsys.readouterr().out


def test_it_says_ticks_split_overlap_path_and_advice(tmp_path, capsys):
    write(tmp_path / "trace.json", [1, 2, 3, 4])
    lines = printed(capsys, tmp_path).splitlines()

    assert lines[:5] == [
        "run  sac on X-v0 x 4, cpu",
        "timing       3 ticks of 10 ms (median 10, p90 10, p99 10): 800 env steps/s, 400 updates/s",
        "learner      update 60.0 %, wait_batch 20.0 %, grant 10.0 %, publish 10.0 %, other 0.0 %",
        "collector-0  env_step 60.0 %, pack 20.0 %, wait_grant 10.0 %, act 10.0 %, other 0.0 %",
        "overlap  collect 85.7 %, pack 0.0 % hidden behind updates; "
        "a tick takes 1.429 times the longer of collecting (7 ms) and updating (6 ms)",
    ]
    assert lines[5].startswith("critical path  collector-0: env_step 40.0 %, ")
    assert "learner and collector both wait" in lines[-1]


def test_json_holds_the_same_numbers_by_run(tmp_path, capsys):
    trace = write(tmp_path / "trace.json", [1, 2, 3, 4])
    content = json.loads(printed(capsys, "--json", trace))[str(trace)]

    assert content["timing"]["split"]["learner"]["update"] == pytest.approx(0.6)
    assert content["timing"]["ticks"]["n"] == 3
    assert content["advice"].startswith("bound by hand-overs")


def test_compare_puts_two_side_by_side(tmp_path, capsys):
    a, b = write(tmp_path / "a.json", [1, 2, 3]), write(tmp_path / "b.json", [1, 2, 3, 4, 5])
    lines = printed(capsys, "--compare", a, b).splitlines()

    assert lines[:2] == [f"A  {a}", f"B  {b}"]
    assert ["learner", "update", "(ms/tick)", "6", "6", "1.000"] in [line.split() for line in lines]


def test_latest_lies_in_the_log_dir(tmp_path, capsys):
    (tmp_path / "latest").mkdir()
    write(tmp_path / "latest" / "trace.json", [1, 2])

    assert "1 ticks of 10 ms" in printed(capsys, "latest", "--log-dir", tmp_path)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "give runs"),
        (["nowhere"], "nowhere has no trace.json: a run writes one with --trace"),
        (["x", "--compare", "a", "b"], "give runs"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_what_it_cannot_read_is_refused(capsys, argv, said):
    assert trace_report(argv) == 2
    assert said in capsys.readouterr().err

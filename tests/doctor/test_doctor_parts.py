"""The doctor's own parts: options, report, what a dry run is and what its trace says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unilab.checks.finding import fail, ok, warn
from unilab.config import TrainConfig, check, overlay
from unilab.doctor.dry_run import shortened
from unilab.doctor.env_probe import EnvReport
from unilab.doctor.examine import DoctorOptions
from unilab.doctor.options import take_options
from unilab.doctor.report import Report
from unilab.doctor.timing import Timing, format_s, read_timing, timing_findings
from unilab.errors import ConfigError

# ------------------------------------------------------------ options


@pytest.mark.parametrize("deadline", [["--deadline", "5"], ["--deadline=5"]])
def test_the_doctors_options_are_taken_out_of_those_of_the_run(deadline):
    options, words = take_options(["--env", "X-v0", "--json", *deadline, "--seed", "3"])

    assert options == DoctorOptions(json=True, deadline_s=5.0)
    assert words == ["--env", "X-v0", "--seed", "3"]
    assert take_options([]) == (DoctorOptions(), [])


@pytest.mark.parametrize("text", ["0", "-1", "soon", "inf", "nan"])
def test_a_deadline_that_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match="positive number of seconds"):
        take_options(["--deadline", text])


# ------------------------------------------------------------ report


def test_a_finding_is_one_line_and_its_detail_is_indented_below(capsys):
    report = Report(as_json=False)
    report.add(ok("disk", "much\nfree"), fail("env", "raised", "mend it", "Traceback:\n  boom"))
    report.close()

    assert capsys.readouterr().out.splitlines() == [
        "ok    disk           much free",
        "FAIL  env            raised; mend it",
        "    Traceback:",
        "      boom",
        "1 ok, 0 warn, 1 FAIL: this run would not work",
    ]
    assert report.exit_code == 2


def test_json_is_one_object_and_nothing_else(capsys):
    report = Report(as_json=True)
    report.add(warn("threads", "many", "fewer"))
    assert capsys.readouterr().out == ""
    report.close()

    content = json.loads(capsys.readouterr().out)
    assert (content["exit_code"], content["warnings"], content["failures"]) == (0, 1, 0)
    assert content["findings"] == [
        {"level": "warn", "check": "threads", "saw": "many", "advice": "fewer", "detail": ""}
    ]


# ------------------------------------------------------------ dry run


@pytest.mark.parametrize(
    ("sections", "steps_per_s", "prefill", "ticks"),
    [
        ({}, 1e5, 200, 60),
        ({}, 20.0, 100, 60),  # a slow env: five seconds of it
        ({"env": {"num_envs": 64}}, 1e5, 256, 5),
        ({"pacing": {"utd": 0.01}}, 1e5, 200, 300),
        ({"pacing": {"utd": 20}}, 1e5, 200, 5),
        ({"replay": {"learning_starts": 40}}, 1e5, 40, 60),
    ],
)
def test_a_dry_run_is_small_but_makes_updates(sections, steps_per_s, prefill, ticks):
    cfg = overlay(TrainConfig(), sections, "test")

    small = shortened(cfg, EnvReport([], None, steps_per_s), Path("/scratch"))

    check(small)
    assert (small.schedule().prefill, small.schedule().total_ticks) == (prefill, ticks)
    assert small.schedule().updates_until(ticks) >= 3
    assert small.replay.buffer_size == cfg.replay.buffer_size
    assert small.evaluation.eval_episodes == 1
    assert (small.log_dir, small.env, small.learner) == (Path("/scratch"), cfg.env, cfg.learner)


def test_a_dry_run_computes_its_updates_as_the_whole_run_would(monkeypatch):
    monkeypatch.setattr("unilab.computing.no_compiler", lambda _: None)
    monkeypatch.setattr("unilab.computing.fast_bf16", lambda _: True)
    made = {
        steps: shortened(TrainConfig(total_steps=steps), EnvReport([], None, 1e5), Path("/scratch"))
        for steps in (3_000, 10**6)
    }

    assert [(small.compile, small.precision) for small in made.values()] == [("off", "fp32"), ("on", "bf16")]


def test_a_dry_run_evaluates_only_if_the_run_does():
    cfg = overlay(TrainConfig(), {"evaluation": {"eval_episodes": 0}}, "test")

    assert shortened(cfg, EnvReport([], None, 1e5), Path("/scratch")).evaluation.eval_episodes == 0


def span(name, start_s, end_s, pid=1):
    return {"ph": "X", "name": name, "ts": start_s * 1e6, "dur": (end_s - start_s) * 1e6, "pid": pid, "tid": 1}


def names():
    roles = {1: "learner", 2: "collector-0"}
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 1, "ts": 0, "args": {"name": name}}
        for pid, name in roles.items()
    ]


def test_times_are_read_from_the_trace(tmp_path):
    ticks = [span("tick", 2 + t, 3 + t) for t in range(2)] + [span("tick", 4 + t / 2, 4.5 + t / 2) for t in range(2)]
    events = [*names(), span("env_step", 1, 1.5, pid=2), *ticks, span("update", 2.5, 2.75), span("save", 5, 5.25)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    small = overlay(TrainConfig(), {"replay": {"learning_starts": 10}}, "test")

    timing = read_timing(small, tmp_path, spawned_s=10.0, wall_s=7.25)

    assert timing == Timing(
        first_step_s=11.0, first_update_s=12.5, prefill_step_s=0.1, tick_s=0.5, save_s=0.25, end_s=2.0
    )


def test_the_duration_is_prefill_and_ticks_and_saves_and_end():
    cfg = replace(
        overlay(TrainConfig(), {"replay": {"learning_starts": 100}, "pacing": {"utd": 0.5}}, "test"),
        total_steps=1100,
        save_every=500,
    )
    timing = Timing(first_step_s=3.0, first_update_s=4.0, prefill_step_s=0.01, tick_s=0.1, save_s=1.0, end_s=5.0)

    text = timing_findings(cfg, timing)[1].saw

    assert "10 env steps/s and 5 updates/s" in text
    assert "about 2 min for 1,100 env steps" in text  # 3 + 1 + 1000 * 0.1 + 2 * 1 + 5 = 111 s


@pytest.mark.parametrize(("seconds", "text"), [(45.4, "45 s"), (600, "10 min"), (12_000, "3 h 20 min")])
def test_durations_are_said_in_words(seconds, text):
    assert format_s(seconds) == text

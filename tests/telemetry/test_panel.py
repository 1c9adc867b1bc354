"""The panel: what it shows, what it leaves on a terminal, and when there are plain lines instead."""

import io

import pytest
from rich.console import Console as RichConsole

from unilab.telemetry.console import Console
from unilab.telemetry.panel import Panel, clock, open_console

SCALARS = {
    "rollout/ep_rew_mean": 1234.5,
    "train/critic_loss": 0.25,
    "time/fps": 321.0,
    "perf/updates_per_s": 80.25,
    "sys/collector_rss_mb": 246.81,
    "perf/learner_update_share": 0.8,
    "perf/learner_wait_batch_share": 0.15,
    "perf/learner_other_share": 0.05,
    "perf/collector_wait_grant_share": 0.7,
    "perf/collector_env_step_share": 0.3,
}


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("LINES", "40")


@pytest.fixture
def stream():
    return Tty()


@pytest.fixture
def panel(stream):
    panel = Panel(stream, "sac on Env[0]-v0")
    yield panel
    panel.close()


def drawn(panel):
    """The panel's lines, without colours."""
    out = io.StringIO()
    RichConsole(file=out, width=110, color_system=None).print(panel.render())
    return out.getvalue()


def test_a_terminal_gets_a_panel_and_everything_else_plain_lines(stream, monkeypatch):
    assert type(open_console(stream, "t")) is Panel
    assert type(open_console(io.StringIO(), "t")) is Console
    assert type(open_console(None, "t")) is Console
    monkeypatch.setenv("TERM", "dumb")
    assert type(open_console(stream, "t")) is Console
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert type(open_console(stream, "t")) is Console


def test_it_shows_progress_returns_losses_speeds_and_who_waits(panel):
    panel.status(2_000, 10_000, SCALARS)
    text = drawn(panel)

    assert "sac on Env[0]-v0" in text
    assert "2,000 / 10,000 env steps  20.0%" in text
    for words in ("training", "1234", "critic loss", "0.25", "env steps/s", "321"):
        assert words in text
    assert "actor loss" not in text  # there is none
    for words, value in (("updates/step", "0.25"), ("collector MB", "246.8")):
        (row,) = [line for line in text.splitlines() if words in line]
        assert row.split(words)[1].split()[0] == value
    (learner,) = [line for line in text.splitlines() if "learner" in line]
    assert "busy 85%  update 80%, wait_batch 15%, other 5%" in learner
    (collector,) = [line for line in text.splitlines() if "collector  " in line]
    assert "busy 30%  env_step 30%, wait_grant 70%" in collector


def test_a_role_that_only_waits_is_busy_0_percent(panel):
    panel.status(2_000, 10_000, SCALARS | {"perf/collector_wait_grant_share": 1.002})

    (line,) = [line for line in drawn(panel).splitlines() if "wait_grant" in line]
    assert "busy 0%" in line


def test_time_left_counts_from_where_this_start_began(panel, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("unilab.telemetry.panel.time.monotonic", lambda: now[0])
    panel.status(5_000, 10_000, {})  # a run that goes on
    now[0] += 60
    panel.status(6_000, 10_000, {})

    assert "1:00 spent, 4:00 left" in drawn(panel)


def test_the_best_evaluation_stays_and_an_older_step_does_not_take_progress_back(panel):
    panel.status(3_000, 10_000, {})
    panel.evaluation(2_000, {"eval/mean_reward": 50.0})
    panel.evaluation(2_500, {"eval/mean_reward": 40.0})
    text = drawn(panel)

    assert "3,000 / 10,000" in text
    (best,) = [line for line in text.splitlines() if "best evaluation" in line]
    assert "50" in best


def test_the_prefill_is_shown_before_there_are_scalars(panel):
    panel.line(phase="prefill", env_steps=30, of=100)

    assert "phase=prefill env_steps=30 of=100" in drawn(panel)
    panel.status(100, 1000, SCALARS)
    assert "prefill" not in drawn(panel)


def test_messages_stand_above_it_unchanged_but_for_escapes(panel, stream):
    panel.status(1, 10, {})
    panel.note("runs[/b] [seed3] " + "x" * 150 + "\x1b[31mred")

    assert "runs[/b] [seed3] " + "x" * 150 + "red" in stream.getvalue()


def test_before_the_panel_messages_are_plain(panel, stream):
    panel.header([("run", "a/b")])

    assert stream.getvalue() == "run  a/b\n"


def test_the_cursor_is_never_left_hidden(panel, stream):
    panel.status(1, 10, {})
    shown = stream.getvalue()

    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")
    panel.close()
    panel.close()
    panel.error("the cause")
    assert stream.getvalue().endswith("error: the cause\n")


def test_what_workers_print_is_shown_above_it_in_whole_lines(panel, stream, tmp_path):
    log = panel.worker_log(tmp_path)
    log.write_text("one [b]\ntwo\nhal")
    panel.status(1, 10, {})
    assert "one [b]" in stream.getvalue()
    assert "hal" not in stream.getvalue()
    with log.open("a") as file:
        file.write("f\n" + "".join(f"line {i}\n" for i in range(50)))
    panel.status(2, 10, {})

    assert stream.getvalue().count("one [b]") == 1
    assert "line 49" in stream.getvalue()
    assert "line 5\n" not in stream.getvalue()
    assert f"(41 more lines of workers are in {log})" in stream.getvalue()


def test_what_an_earlier_start_left_is_not_shown_again(stream, tmp_path):
    (tmp_path / "workers.log").write_text("long ago\n")
    panel = Panel(stream)
    panel.worker_log(tmp_path)
    panel.status(1, 10, {})
    panel.close()

    assert "long ago" not in stream.getvalue()


def test_plain_lines_leave_workers_alone(tmp_path):
    assert Console(io.StringIO()).worker_log(tmp_path) is None


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (125, "2:05"), (3723, "1:02:03")])
def test_times_are_read_at_a_glance(seconds, text):
    assert clock(seconds) == text

"""One write reaches the console, TensorBoard and csv."""

import csv
import io

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from unilab.telemetry.console import Console
from unilab.telemetry.csv import CsvWriter
from unilab.telemetry.reporter import Reporter
from unilab.telemetry.tensorboard import TensorBoardWriter


class Spy:
    """A writer that remembers."""

    def __init__(self, fails=False):
        self.rows = []
        self.closed = 0
        self.fails = fails

    def write(self, env_steps, scalars):
        self.rows.append((env_steps, dict(scalars)))

    def close(self):
        self.closed += 1
        if self.fails:
            raise OSError(28, "No space left on device")


def test_the_console_shows_its_selection_in_order_and_leaves_out_what_is_missing():
    stream, spy = io.StringIO(), Spy()
    reporter = Reporter(Console(stream), [spy], total_steps=50_000)
    scalars = {
        "sys/learner_rss_mb": 900.0,
        "train/critic_loss": 0.123456,
        "time/fps": 2500.4,
        "rollout/ep_rew_mean": -1200.5,
        "lag/policy": 1.0,
    }
    reporter.write(1250, scalars, to_console=True)

    expected = "env_steps=1250 done=2.5% ep_rew_mean=-1200 fps=2500 critic_loss=0.1235 policy_lag=1\n"
    assert stream.getvalue() == expected
    assert spy.rows == [(1250, scalars)]


def test_console_and_files_are_silent_unless_asked_and_need_no_total():
    stream, spy = io.StringIO(), Spy()
    reporter = Reporter(Console(stream), [spy])
    reporter.write(1, {"time/fps": 1.0}, to_console=False)
    assert stream.getvalue() == ""
    reporter.write(2, {}, to_console=True, to_files=False)
    assert stream.getvalue() == "env_steps=2\n"
    assert spy.rows == [(1, {"time/fps": 1.0})]


def test_the_files_agree(tmp_path):
    files = [TensorBoardWriter(tmp_path), CsvWriter(tmp_path / "progress.csv")]
    reporter = Reporter(Console(None), files)
    reporter.write(10, {"train/critic_loss": 0.5}, to_console=True)
    reporter.write(20, {"train/critic_loss": 0.25, "eval/mean_reward": 3.0}, to_console=False)
    reporter.close()
    reporter.close()

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/critic_loss")] == [(10, 0.5), (20, 0.25)]
    with open(tmp_path / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["env_steps"], r["train/critic_loss"], r["eval/mean_reward"]) for r in rows] == [
        ("10", "0.5", ""),
        ("20", "0.25", "3.0"),
    ]


def test_close_reaches_every_writer_also_after_one_has_failed():
    spies = [Spy(), Spy(fails=True), Spy()]
    with pytest.raises(OSError, match="No space left"):
        Reporter(Console(None), spies).close()

    assert [spy.closed for spy in spies] == [1, 1, 1]

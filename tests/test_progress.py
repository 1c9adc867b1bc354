"""Which scalars are written, when, and what is never written."""

import io

import numpy as np
import pytest
import torch

from unilab import progress as progress_module
from unilab.errors import NonFinite
from unilab.progress import Mark, Progress
from unilab.telemetry.console import Console
from unilab.telemetry.every import Every, EverySeconds
from unilab.telemetry.metrics import Metrics
from unilab.telemetry.reporter import Reporter


class Spy:
    """A writer that remembers."""

    def __init__(self):
        self.rows = []

    def write(self, env_steps, scalars):
        self.rows.append((env_steps, dict(scalars)))

    def close(self):
        pass


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 1000.0

    def perf_counter(self):
        return self.now


class Rig:
    """A run's progress, its clock started at 0 env steps."""

    def __init__(self, clock, log_every=100):
        self.clock = clock
        self.metrics, self.spy, self.stream = Metrics(), Spy(), io.StringIO()
        reporter = Reporter(Console(self.stream), [self.spy], evaluations=[self.spy])
        self.progress = Progress(reporter, self.metrics, ("is_success",), log_every=Every(log_every))
        self.write(0, 0)

    def write(self, env_steps, updates=1, *, reward_sum=0.0, skipped=0, seconds=None, resident=None, last=False):
        self.clock.now += 0.001
        now = Mark(
            env_steps=env_steps,
            updates=updates,
            reward_sum=reward_sum,
            skipped=skipped,
            policy_lag=1,
            seconds=seconds or {},
            resident=resident or {},
            time_s=self.clock.now,
        )
        self.progress.write(now, last=last)

    def tick(self, env_steps, **kwargs):
        """As the runtime does after a tick."""
        if self.progress.due(env_steps):
            self.write(env_steps, **kwargs)

    def add_losses(self, **losses):
        self.metrics.add({name: torch.tensor(float(value)) for name, value in losses.items()})

    @property
    def steps(self):
        return [env_steps for env_steps, _ in self.spy.rows]

    @property
    def last(self):
        return self.spy.rows[-1][1]

    @property
    def lines(self):
        return self.stream.getvalue().splitlines()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    monkeypatch.setattr(progress_module, "EverySeconds", lambda s: EverySeconds(s, clock.perf_counter))
    return clock


@pytest.fixture
def rig(clock):
    return Rig(clock)


def episodes(*rows):
    """Rows of env, return, length, terminated, truncated, is_success."""
    return np.array(rows, np.float64)


# ------------------------------------------------------------ when


def test_files_are_written_when_env_steps_cross_the_interval(rig):
    for env_steps in (60, 99, 100, 150, 199, 230, 290, 300):
        rig.tick(env_steps)

    assert rig.steps == [100, 230, 300]


def test_the_first_call_only_starts_the_clocks(rig):
    assert rig.spy.rows == []
    assert rig.lines == []


def test_no_step_is_written_twice(rig):
    for env_steps, last in [(100, False), (100, False), (100, True), (130, True), (130, True)]:
        if rig.progress.due(env_steps) or last:
            rig.write(env_steps, last=last)

    assert rig.steps == [100, 130]


def test_the_console_speaks_after_two_seconds_and_then_as_often(rig):
    spoken = []
    for tenth in range(1, 60):
        rig.clock.now = 1000.0 + tenth / 10
        before = len(rig.lines)
        rig.tick(tenth)
        if len(rig.lines) > before:
            spoken.append(tenth)

    assert spoken == [20, 40]


def test_the_end_is_always_said_and_written(rig):
    rig.write(40, last=True)

    assert len(rig.lines) == 1
    assert rig.lines[0].startswith("env_steps=40")
    assert rig.steps == [40]


def test_the_prefill_is_said_every_few_seconds_and_at_its_end(rig):
    said = []
    for second, env_steps in [(0, 10), (1, 20), (2, 30), (3, 40), (11.9, 50), (12, 60), (12.5, 100)]:
        rig.clock.now = 1000.0 + second
        before = len(rig.lines)
        rig.progress.prefill(env_steps, 100, reward_per_step=-1.5)
        if len(rig.lines) > before:
            said.append(env_steps)

    assert said == [30, 60, 100]
    assert rig.lines[0] == "phase=prefill env_steps=30 of=100 reward_per_step=-1.5"
    assert rig.spy.rows == []


def test_an_evaluation_goes_to_console_and_files(rig):
    rig.progress.write_evaluation(500, {"eval/mean_reward": -7.0})

    assert rig.spy.rows == [(500, {"eval/mean_reward": -7.0})]
    assert rig.lines == ["evaluated_env_steps=500 eval_reward=-7"]


# ------------------------------------------------------------ what


def test_episodes_and_their_metrics_become_means(rig):
    rig.progress.add_episodes(episodes([0, -10, 5, 1, 0, 1.0], [1, -30, 7, 0, 1, np.nan]))
    rig.tick(100)

    assert rig.last["rollout/ep_rew_mean"] == -20
    assert rig.last["rollout/ep_len_mean"] == 6
    assert rig.last["rollout/terminated_rate"] == 0.5
    assert rig.last["rollout/truncated_rate"] == 0.5
    assert rig.last["rollout/success_rate"] == 1.0  # over the episodes that carry it


def test_before_the_first_episode_has_ended_there_are_no_returns(rig):
    rig.tick(100)

    assert not [name for name in rig.last if name.startswith("rollout/ep_")]


def test_losses_are_means_since_the_last_write(rig):
    rig.add_losses(critic_loss=1.0)
    rig.add_losses(critic_loss=3.0)
    rig.tick(100, updates=2)
    rig.add_losses(critic_loss=10.0)
    rig.tick(200, updates=3)

    assert [row["train/critic_loss"] for _, row in rig.spy.rows] == [2.0, 10.0]
    assert [row["train/n_updates"] for _, row in rig.spy.rows] == [2.0, 3.0]
    assert [row["time/total_timesteps"] for _, row in rig.spy.rows] == [100.0, 200.0]


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([0.06, 0.06], 0),
        ([0.06, 0.06, 0.06], 1),
        ([0.9] * 7, 1),  # once
        ([0.06, 0.06, 0.04, 0.06, 0.06], 0),  # not in a row
        ([0.04] * 7, 0),
    ],
)
def test_returns_that_stay_beyond_the_critics_support_are_said_once(rig, edges, said):
    for i, edge in enumerate(edges):
        rig.add_losses(support_edge=edge)
        rig.tick(100 * (i + 1))

    warnings = [line for line in rig.lines if line.startswith("warning: returns do not fit the critics' support")]
    assert len(warnings) == said


def test_the_reward_per_step_is_over_the_rows_since_the_last_write(rig):
    rig.tick(100, reward_sum=50.0)
    rig.tick(150, reward_sum=1000.0)  # not due
    rig.tick(300, reward_sum=-50.0)

    assert [row["rollout/reward_per_step"] for _, row in rig.spy.rows] == [0.5, -0.5]


def test_the_row_age_is_the_learners_version_less_that_of_the_rows(rig):
    rig.progress.add_batch(8, np.array([1, 3]))  # tick 8 starts from version 7: ages 6 and 4
    rig.progress.add_batch(9, np.array([], np.int64))  # a tick without rows has no age
    rig.progress.add_batch(10, np.array([-1, -1]))  # random actions count as version 0: 9 and 9
    rig.tick(100)

    assert rig.last["lag/row_age"] == 7.0
    rig.tick(200)
    assert "lag/row_age" not in rig.last


def test_speeds_are_steps_and_updates_over_the_wall_time_since_the_last_write(rig):
    rig.clock.now += 3.999
    rig.tick(200, updates=100)
    assert rig.last["time/fps"] == pytest.approx(50.0)
    assert rig.last["perf/updates_per_s"] == pytest.approx(25.0)

    rig.clock.now += 9.999
    rig.tick(300, updates=130)
    assert rig.last["time/fps"] == pytest.approx(10.0)
    assert rig.last["perf/updates_per_s"] == pytest.approx(3.0)


def test_memory_is_the_newest_of_each_role_in_megabytes(rig):
    rig.tick(100, resident={"learner": 500_000_000, "collector": 250_000_000})
    rig.tick(200, resident={"learner": 510_000_000})  # the other one cannot be seen

    first, second = (row for _, row in rig.spy.rows)
    assert (first["sys/learner_rss_mb"], first["sys/collector_rss_mb"]) == (500.0, 250.0)
    assert second["sys/learner_rss_mb"] == 510.0
    assert "sys/collector_rss_mb" not in second


def test_the_console_has_the_speeds_since_its_line_before_however_close_the_last_row_is(rig):
    rig.clock.now += 1.999
    rig.tick(60, updates=60)  # the first line
    rig.progress._console_due = EverySeconds(10.0, rig.clock.perf_counter)  # as after the prefill
    rig.clock.now += 8.999
    rig.tick(100, updates=100)  # a row, no line
    rig.clock.now += 1.499
    rig.tick(102, updates=102)

    first, second = rig.lines
    assert "fps=30 updates/s=30" in first
    assert "env_steps=102" in second
    assert "fps=4 updates/s=4" in second
    assert rig.spy.rows[0][1]["time/fps"] == pytest.approx(100 / 11, rel=1e-3)


def test_a_panel_that_is_drawn_often_has_the_speeds_of_the_last_ten_seconds(rig, monkeypatch):
    said = []
    monkeypatch.setattr(rig.progress._reporter.console, "status", lambda *words: said.append(words[2]["time/fps"]))
    monkeypatch.setattr(rig.progress, "due", lambda _: True)
    monkeypatch.setattr(rig.progress, "_to_console", True)
    for second in range(1, 41):  # 10 env steps/s, and 20 from the 20th second on
        rig.clock.now += 0.999
        rig.tick(10 * second + 10 * max(0, second - 20))

    assert said[:20] == pytest.approx([10.0] * 20)
    assert said[24] == pytest.approx(15.0)
    assert said[30:] == pytest.approx([20.0] * 10)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_ends_the_run_and_is_named(rig, value):
    rig.add_losses(critic_loss=1.0, actor_loss=2.0)
    rig.add_losses(critic_loss=1.0, actor_loss=value)

    with pytest.raises(NonFinite, match=rf"train/actor_loss became {value} by env step 1,200 \(update 1,100\)"):
        rig.tick(1200, updates=1100)
    assert rig.spy.rows == []


# ------------------------------------------------------------ where the time goes


def shares(row, role):
    prefix = f"perf/{role}_"
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}


def test_the_shares_of_each_role_add_up_to_the_wall_time_since_the_last_write(rig):
    rig.clock.now += 9.999
    rig.tick(100, seconds={"learner": {"update": 5.0, "wait_batch": 1.0}, "collector": {"env_step": 4.0}})
    assert shares(rig.last, "learner") == pytest.approx(
        {"update_share": 0.5, "wait_batch_share": 0.1, "other_share": 0.4}
    )
    assert shares(rig.last, "collector") == pytest.approx({"env_step_share": 0.4, "other_share": 0.6})

    rig.clock.now += 4.999
    rig.tick(200, seconds={"learner": {"update": 9.0, "wait_batch": 1.0}, "collector": {"env_step": 4.5}})
    assert shares(rig.last, "learner") == pytest.approx(
        {"update_share": 0.8, "wait_batch_share": 0.0, "other_share": 0.2}
    )
    assert shares(rig.last, "collector") == pytest.approx({"env_step_share": 0.1, "other_share": 0.9})
    assert sum(shares(rig.last, "learner").values()) == 1.0


def test_the_time_of_the_prefill_is_no_part_of_the_first_shares(clock):
    rig = Rig.__new__(Rig)
    rig.clock = clock
    rig.metrics, rig.spy, rig.stream = Metrics(), Spy(), io.StringIO()
    rig.progress = Progress(Reporter(Console(rig.stream), [rig.spy]), rig.metrics, (), log_every=Every(100))
    rig.write(50, seconds={"collector": {"env_step": 30.0, "act": 10.0}})
    rig.clock.now += 9.999
    rig.tick(200, seconds={"collector": {"env_step": 34.0, "act": 10.0}})

    assert shares(rig.last, "collector") == pytest.approx({"env_step_share": 0.4, "act_share": 0.0, "other_share": 0.6})
    assert rig.last["time/fps"] == pytest.approx(15.0)

"""Which scalars are written, when, and what is never written."""

import io

import numpy as np
import pytest
import torch
from unilab.telemetry.split import TimeSplit

from unilab import progress as progress_module
from unilab.errors import NonFinite
from unilab.progress import Progress
from unilab.telemetry.console import Console
from unilab.telemetry.every import EverySeconds
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
    def __init__(self, clock, log_every=100):
        self.clock = clock
        self.metrics, self.spy, self.stream = Metrics(), Spy(), io.StringIO()
        reporter = Reporter(Console(self.stream), [self.spy])
        self.progress = Progress(reporter, self.metrics, ("is_success",), log_every=log_every)

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
        rig.progress.write_if_due(env_steps, updates=1)

    assert rig.steps == [100, 230, 300]


def test_no_step_is_written_twice(rig):
    rig.progress.write_if_due(100, updates=1)
    rig.progress.write_if_due(100, updates=1)
    rig.progress.write_if_due(100, updates=1, force=True)
    rig.progress.write_if_due(130, updates=1, force=True)
    rig.progress.write_if_due(130, updates=1, force=True)

    assert rig.steps == [100, 130]


def test_the_console_speaks_after_two_seconds_and_then_not_more_often(rig):
    rig.progress.start_clock(0)
    spoken = []
    for tenth in range(60):
        rig.clock.now = 1000.0 + tenth / 10
        before = len(rig.lines)
        rig.progress.write_if_due(tenth, updates=tenth)
        if len(rig.lines) > before:
            spoken.append(tenth)

    assert spoken == [20, 40]


def test_the_end_is_always_said(rig):
    rig.progress.write_if_due(40, updates=1, force=True)

    assert len(rig.lines) == 1
    assert rig.lines[0].startswith("env_steps=40")


def test_the_prefill_is_said_at_once_after_two_seconds_and_at_its_end(rig):
    said = []
    for second, env_steps in [(0, 10), (1, 20), (2, 30), (3, 40), (11.9, 50), (12, 60), (12.5, 100)]:
        rig.clock.now = 1000.0 + second
        before = len(rig.lines)
        rig.progress.prefill(env_steps, 100, reward_mean=-1.5)
        if len(rig.lines) > before:
            said.append(env_steps)

    assert said == [30, 60, 100]
    assert rig.lines[0] == "phase=prefill env_steps=30 of=100 reward_per_step=-1.5"
    assert rig.spy.rows == []


def test_an_evaluation_goes_to_console_and_files(rig):
    rig.progress.write_evaluation(500, {"eval/mean_reward": -7.0})

    assert rig.spy.rows == [(500, {"eval/mean_reward": -7.0})]
    assert rig.lines == ["env_steps=500 eval_reward=-7"]


# ------------------------------------------------------------ what


def test_episodes_and_their_metrics_become_means(rig):
    rig.progress.add_episodes(episodes([0, -10, 5, 1, 0, 1.0], [1, -30, 7, 0, 1, np.nan]))
    rig.progress.write_if_due(100, updates=9)

    assert rig.last["rollout/ep_rew_mean"] == -20
    assert rig.last["rollout/ep_len_mean"] == 6
    assert rig.last["rollout/terminated_rate"] == 0.5
    assert rig.last["rollout/truncated_rate"] == 0.5
    assert rig.last["rollout/is_success"] == 1.0  # over the episodes that carry it


def test_before_the_first_episode_has_ended_there_are_no_returns(rig):
    rig.progress.write_if_due(100, updates=9)

    assert not [name for name in rig.last if name.startswith("rollout/ep_")]


def test_losses_are_means_since_the_last_write(rig):
    rig.add_losses(critic_loss=1.0)
    rig.add_losses(critic_loss=3.0)
    rig.progress.write_if_due(100, updates=2)
    rig.add_losses(critic_loss=10.0)
    rig.progress.write_if_due(200, updates=3)

    assert [row["train/critic_loss"] for _, row in rig.spy.rows] == [2.0, 10.0]
    assert [row["train/n_updates"] for _, row in rig.spy.rows] == [2.0, 3.0]
    assert [row["time/total_timesteps"] for _, row in rig.spy.rows] == [100.0, 200.0]


def test_rewards_and_row_ages_are_means_over_the_ticks_since_the_last_write(rig):
    for reward, age in [(1.0, 4.0), (2.0, float("nan")), (6.0, 8.0)]:  # a tick without rows has no age
        rig.progress.add_tick(reward, age)
    rig.progress.write_if_due(100, updates=2)

    assert rig.last["rollout/reward_per_step"] == 3.0
    assert rig.last["lag/row_age"] == 6.0
    rig.progress.write_if_due(200, updates=2)
    assert "lag/row_age" not in rig.last


def test_speeds_are_steps_and_updates_over_the_wall_time_since_the_last_write(rig):
    rig.progress.start_clock(50)
    rig.clock.now += 4.0
    rig.progress.write_if_due(250, updates=100)
    assert rig.last["time/fps"] == 50.0
    assert rig.last["perf/updates_per_s"] == 25.0

    rig.clock.now += 10.0
    rig.progress.write_if_due(350, updates=130)
    assert rig.last["time/fps"] == 10.0
    assert rig.last["perf/updates_per_s"] == 3.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_ends_the_run_and_is_named(rig, value):
    rig.add_losses(critic_loss=1.0, actor_loss=2.0)
    rig.add_losses(critic_loss=1.0, actor_loss=value)

    with pytest.raises(NonFinite, match=rf"train/actor_loss became {value} by env step 1,200 \(update 1,100\)"):
        rig.progress.write_if_due(1200, updates=1100)
    assert rig.spy.rows == []


# ------------------------------------------------------------ where the time goes


def shares(row, role):
    prefix = f"perf/{role}_"
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}


def test_the_shares_of_each_role_add_up_to_the_wall_time(rig):
    rig.progress.start_clock(0)
    rig.progress.add_seconds("learner", {"update": 3.0, "wait_batch": 1.0})
    rig.progress.add_seconds("learner", {"update": 2.0})
    rig.progress.add_seconds("collector", {"env_step": 4.0})
    rig.clock.now += 10.0
    rig.progress.write_if_due(100, updates=1)

    learner, collector = shares(rig.last, "learner"), shares(rig.last, "collector")
    assert learner == {"update_share": 0.5, "wait_batch_share": 0.1, "other_share": pytest.approx(0.4)}
    assert collector == {"env_step_share": 0.4, "other_share": 0.6}


def test_the_time_of_the_prefill_is_no_part_of_the_first_shares(rig):
    rig.progress.add_seconds("collector", {"env_step": 30.0, "act": 10.0})
    rig.progress.start_clock(100)
    rig.progress.add_seconds("collector", {"env_step": 4.0})
    rig.clock.now += 10.0
    rig.progress.write_if_due(200, updates=1)

    assert shares(rig.last, "collector") == {"env_step_share": 0.4, "other_share": 0.6}


def test_a_split_adds_up_to_one_and_starts_anew():
    split = TimeSplit()
    split.add({"a": 1.0, "b": 2.0})
    split.add({"b": 3.0})

    taken = split.take_shares(10.0)
    assert taken == {"a": 0.1, "b": 0.5, "other": pytest.approx(0.4)}
    assert sum(taken.values()) == 1.0
    assert split.take_shares(10.0) == {"other": 1.0}


def test_a_split_over_no_time_has_no_shares():
    split = TimeSplit()
    split.add({"a": 1.0})

    assert split.take_shares(0.0) == {}
    assert split.take_shares(2.0) == {"a": 0.5, "other": 0.5}

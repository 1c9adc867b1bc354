"""Trackers as a run sees them; the clients are stand-ins with the calls of wandb 0.31 and trackio 0.43."""

import importlib.machinery
import sys
from types import ModuleType

import pytest

from unilab.errors import ConfigError
from unilab.telemetry.track import Tracker, check_service


class Run:
    def __init__(self):
        self.logged, self.axes, self.finished, self.error = [], [], 0, None

    def log(self, values, step=None):
        if self.error:
            raise self.error
        self.logged.append((values, step))

    def define_metric(self, name, step_metric=None):
        self.axes.append((name, step_metric))

    def finish(self):
        self.finished += 1


@pytest.fixture(params=["wandb", "trackio"])
def service(request, monkeypatch):
    stub = ModuleType(request.param)
    stub.__spec__ = importlib.machinery.ModuleSpec(request.param, None)
    stub.run, stub.options = Run(), {}

    def init(**options):
        stub.options = options
        return stub.run

    stub.init = init
    monkeypatch.setitem(sys.modules, request.param, stub)
    return stub


def test_scalars_arrive_over_env_steps_and_may_go_back(service, tmp_path):
    said = []
    tracker = Tracker(service.__name__, tmp_path / "mine", {"algo": "sac"}, said.append)
    tracker.write(1000, {"rollout/ep_rew_mean": 1.0, "train/loss": float("nan")})
    tracker.write(500, {"eval/mean_reward": 2.0})
    tracker.close()
    tracker.close()

    assert {name: service.options[name] for name in ("project", "name", "config", "resume")} == {
        "project": "unilab",
        "name": "mine",
        "config": {"algo": "sac"},
        "resume": "allow",
    }
    if service.__name__ == "wandb":
        assert service.run.axes == [("env_steps", None), ("*", "env_steps")]
        assert service.run.logged == [
            ({"env_steps": 1000, "rollout/ep_rew_mean": 1.0}, None),
            ({"env_steps": 500, "eval/mean_reward": 2.0}, None),
        ]
    else:
        assert service.run.logged == [({"rollout/ep_rew_mean": 1.0}, 1000), ({"eval/mean_reward": 2.0}, 500)]
    assert (service.run.finished, said, tracker.lost) == (1, [], None)


def test_a_run_that_goes_on_is_the_same_run_there(service, tmp_path):
    for _ in range(2):
        Tracker(service.__name__, tmp_path / "mine", {}, print)
        first = service.options.copy()

    assert service.options == first


def test_a_tracker_that_fails_is_told_once_and_left_alone(service, tmp_path):
    said = []
    tracker = Tracker(service.__name__, tmp_path, {}, said.append)
    service.run.error = RuntimeError("no network\nlong story")
    tracker.write(1, {"a": 1.0})
    tracker.write(2, {"a": 1.0})
    tracker.close()

    assert said == [f"{service.__name__} failed: RuntimeError: no network; training goes on"]
    assert tracker.lost == f"{service.__name__} failed: RuntimeError: no network"


def test_one_that_cannot_begin_is_told_too(service, tmp_path):
    def refuse(**_):
        raise ValueError("no key")

    service.init = refuse
    said = []
    tracker = Tracker(service.__name__, tmp_path, {}, said.append)
    tracker.write(1, {"a": 1.0})

    assert len(said) == 1
    assert "no key" in said[0]


def test_one_that_is_not_installed_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_service("none")
    with pytest.raises(ConfigError, match=r"pip install 'unilab-offpolicy\[trackio\]'"):
        check_service("trackio")

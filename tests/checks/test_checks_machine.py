"""Each check of the machine, by hand: fake limits, fake disks, fake distributions."""

import resource
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unilab import budget
from unilab.algos.registry import ALGORITHMS, make_learner
from unilab.budget import ThreadBudget
from unilab.checks import descriptors, package, torch_build
from unilab.checks.descriptors import descriptor_finding, descriptors_needed
from unilab.checks.disk import checkpoints_kept, disk_finding, log_dir_finding, replay_rows, state_bytes
from unilab.checks.finding import fail, ok, warn, warnings_of
from unilab.checks.memory import memory_finding
from unilab.checks.package import package_finding
from unilab.checks.shared_memory import shared_memory_finding
from unilab.checks.threads import thread_finding
from unilab.checks.torch_build import torch_finding
from unilab.config import TrainConfig, overlay
from unilab.errors import ResourceError
from unilab.spec import EnvSpec

SPEC = EnvSpec(env_id="X-v0", obs_dim=3, action_dim=1, action_low=(-1.0,), action_high=(1.0,))
Usage = namedtuple("Usage", "total used free")


def config(**sections):
    return overlay(TrainConfig(), sections, "test")


# ------------------------------------------------------------ memory


@pytest.mark.parametrize(("free", "level"), [(1112, "ok"), (1110, "warn"), (1000, "warn"), (999, "FAIL")])
def test_a_buffer_over_nine_tenths_of_the_free_memory_is_a_warning(monkeypatch, free, level):
    monkeypatch.setattr(budget, "available_bytes", lambda: free)

    found = memory_finding({"ring": 1000}, row_bytes=10, buffer_size=100)

    assert found.level == level
    assert ("--buffer-size" in found.advice) == (level != "ok")


def test_the_buffer_that_is_advised_leaves_a_tenth(monkeypatch):
    monkeypatch.setattr(budget, "available_bytes", lambda: 1000)

    found = memory_finding({"ring": 900, "slots": 100}, row_bytes=10, buffer_size=90)

    assert found.level == "warn"
    assert "100%" in found.saw
    assert "--buffer-size 80 " in found.advice  # 800 + 100 of 1000


# ------------------------------------------------------------ disk


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    assert log_dir_finding(tmp_path / "a" / "b").level == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/runs"])
def test_a_log_dir_that_cannot_be_made_is_a_failure(tmp_path, place):
    (tmp_path / "file").touch()

    found = log_dir_finding(tmp_path / place)

    assert found.level == "FAIL"
    assert "--log-dir" in found.advice


def test_the_checkpoints_on_disk_are_those_kept_and_the_one_being_written():
    assert checkpoints_kept(config(total_steps=1000)) == 1  # at the end only
    assert checkpoints_kept(config(total_steps=1000, save_every=100, keep=3)) == 4
    assert checkpoints_kept(config(total_steps=1000, save_every=500, keep=3)) == 2
    assert checkpoints_kept(config(total_steps=1000, save_every=100, keep=0)) == 10


def test_replay_rows_are_shared_by_the_checkpoints_that_need_them():
    assert replay_rows(config(total_steps=1000, replay={"buffer_size": 5000})) == 1000
    cfg = config(total_steps=100_000, save_every=100, keep=3, replay={"buffer_size": 5000})
    assert replay_rows(cfg) == 5000 + 3 * 100


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_estimate_of_a_checkpoint_is_that_of_the_file(algo, tmp_path):
    cfg = TrainConfig(algo=algo)
    learner = make_learner(algo, SPEC, cfg.learner, cfg.algo_config, seed=0, device=torch.device("cpu"))
    torch.save(
        {
            "learner": learner.state_dict(),
            "policy": {name: value.clone() for name, value in learner.policy_module.state_dict().items()},
        },
        tmp_path / "state.pt",
    )

    assert state_bytes(cfg, SPEC) == pytest.approx((tmp_path / "state.pt").stat().st_size, rel=0.3)


@pytest.mark.parametrize(("free_mib", "level"), [(1000, "ok"), (20, "warn"), (3, "FAIL")])
def test_the_disk_must_hold_one_checkpoint_and_should_hold_all(monkeypatch, tmp_path, free_mib, level):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(2**40, 0, free_mib * 2**20))
    cfg = replace(config(save_every=1000), log_dir=tmp_path)

    found = disk_finding(cfg, SPEC, row_bytes=48)

    assert found.level == level
    assert "6 x 3.339 MiB of checkpoints, 60,000 rows of replay of 48 B" in found.saw


def test_a_file_system_that_has_no_size_is_not_full(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, 0))

    assert disk_finding(replace(config(), log_dir=tmp_path), SPEC, row_bytes=48).level == "ok"


# ------------------------------------------------------------ descriptors


@pytest.mark.parametrize(("limit", "level"), [(resource.RLIM_INFINITY, "ok"), (104, "ok"), (103, "warn"), (39, "FAIL")])
def test_more_descriptors_than_a_run_needs_should_be_allowed(monkeypatch, limit, level):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))

    found = descriptor_finding(40)

    assert found.level == level
    assert ("ulimit -n 1024" in found.advice) == (level != "ok")


def test_a_process_per_env_needs_more_descriptors(monkeypatch):
    monkeypatch.setattr(descriptors.os, "listdir", lambda path: ["0", "1", "2"])

    few = descriptors_needed(config(), cuda=False)
    assert few < 40
    assert descriptors_needed(config(), cuda=True) > few
    assert descriptors_needed(config(env={"num_envs": 100}), cuda=False) == few
    assert descriptors_needed(config(env={"num_envs": 100, "vec": "async"}), cuda=False) > 300


def test_each_further_collector_needs_descriptors_of_the_learner(monkeypatch):
    monkeypatch.setattr(descriptors.os, "listdir", lambda path: ["0", "1", "2"])
    needed = [descriptors_needed(config(pacing={"num_collectors": n}), cuda=False) for n in (2, 3, 128)]

    assert needed[1] - needed[0] == 9
    assert needed[2] - needed[0] == 126 * 9


# ------------------------------------------------------------ threads


@pytest.mark.parametrize(
    ("sections", "variables", "said"),
    [
        ({}, {}, None),
        ({"threads": 4}, {"OMP_NUM_THREADS": "4"}, None),
        ({"threads": 5}, {}, "--threads 5"),
        ({}, {"OMP_NUM_THREADS": "5"}, "OMP_NUM_THREADS=5"),
        ({}, {"MKL_NUM_THREADS": "64"}, "MKL_NUM_THREADS=64"),
        ({}, {"OMP_NUM_THREADS": "many"}, None),
        ({"env": {"num_envs": 5}}, {}, None),
        ({"env": {"num_envs": 5, "vec": "async"}}, {}, "5 env processes"),
    ],
)
def test_more_threads_or_processes_than_usable_cores_are_a_warning(monkeypatch, sections, variables, said):
    monkeypatch.setattr(budget, "usable_cores", lambda: 4)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    found = thread_finding(config(**sections), ThreadBudget(3, 1))

    assert found.level == ("warn" if said else "ok")
    assert (said or "learner 3, collector 1") in found.saw


def test_cores_that_a_containers_quota_takes_away_are_said(monkeypatch):
    monkeypatch.setattr(budget, "usable_cores", lambda: 2)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    assert "2 usable cores (of 64" in thread_finding(config(), ThreadBudget(1, 1)).saw


# ------------------------------------------------------------ package


class FakeDistribution:
    version = "9.9"

    def __init__(self, folder, url=None):
        self.folder, self.url = folder, url

    def read_text(self, name):
        return self.url and f'{{"dir_info": {{"editable": true}}, "url": "{self.url}"}}'

    def locate_file(self, name):
        return self.folder / name


@pytest.fixture
def installed(monkeypatch):
    """Set what is installed, by name."""

    def set_installed(**distributions):
        named = {name.replace("_", "-"): value for name, value in distributions.items()}
        monkeypatch.setattr(package, "_distribution", named.get)

    return set_installed


HERE = Path(package.__file__).resolve().parents[2]


def test_our_package_from_where_it_is_installed_is_fine(installed):
    for ours in (FakeDistribution(HERE), FakeDistribution(Path("/elsewhere"), HERE.as_uri())):
        installed(unilab_offpolicy=ours)
        assert package_finding().level == "ok"
    installed()
    assert "not installed" in package_finding().saw


def test_a_foreign_package_of_the_same_module_is_a_warning(installed):
    installed(unilab_offpolicy=FakeDistribution(HERE), unilab=FakeDistribution(HERE))

    found = package_finding()
    assert found.level == "warn"
    assert "unilab 9.9 is installed beside" in found.saw
    assert "pip uninstall unilab" in found.advice


@pytest.mark.parametrize("url", [None, "file:///other/check%20out"])
def test_a_module_from_another_place_than_the_installed_one_is_a_warning(installed, url):
    installed(unilab_offpolicy=FakeDistribution(Path("/other/check out"), url))

    found = package_finding()
    assert found.level == "warn"
    assert "/other/check out" in found.saw


# ------------------------------------------------------------ torch and shared memory


@pytest.mark.parametrize(
    ("gpu", "build", "device", "said"),
    [
        (False, None, "auto", None),
        (True, None, "cpu", None),
        (True, None, "auto", "CPU-only build"),
        (True, "12.8", "auto", "cannot use it"),
    ],
)
def test_a_gpu_that_this_torch_cannot_use_is_a_warning(monkeypatch, tmp_path, gpu, build, device, said):
    monkeypatch.setattr(torch_build, "_DEVICES", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", build)
    if gpu:
        (tmp_path / "nvidia0").touch()

    found = torch_finding(device)

    assert found.level == ("warn" if said else "ok")
    assert (said or "CPU") in found.saw


def test_only_the_fallback_for_shared_memory_needs_room_on_a_disk(monkeypatch):
    assert shared_memory_finding({"ring": 2**60}, "memfd").level == "ok"
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, 1000))
    assert shared_memory_finding({"ring": 1000}, "unlinked_file").level == "ok"
    found = shared_memory_finding({"ring": 1000, "slots": 1}, "unlinked_file")
    assert found.level == "FAIL"
    assert "TMPDIR" in found.advice


# ------------------------------------------------------------ findings


def test_warnings_pass_and_a_failure_is_a_refusal():
    assert warnings_of([ok("a", "fine"), warn("b", "odd", "mend it")]) == ("b: odd; mend it",)
    with pytest.raises(ResourceError, match="bad; stop"):
        warnings_of([warn("b", "odd", "mend it"), fail("c", "bad", "stop")])

"""A run's directory, its strict JSON and its summary."""

import json
import os
import threading
from dataclasses import asdict

import pytest

from unilab import rundir
from unilab.rundir import RunSummary, create_run_dir, origin, write_json, write_summary


@pytest.fixture(autouse=True)
def same_second(monkeypatch):
    """All runs start in the same second."""
    monkeypatch.setattr(rundir.time, "strftime", lambda *_: "20261129-193632")


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def create(root, env="HalfCheetah-v5", algo="sac", seed=3, name=None):
    return create_run_dir(root, env, algo, seed, name)


def test_the_directory_is_named_after_env_algo_time_and_seed(tmp_path):
    assert create(tmp_path) == tmp_path / "HalfCheetah-v5" / "sac" / "20261129-193632_s3"


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ("unilab/Toy-v0", "unilab-Toy-v0"),
        ("my_envs:Walker-v1", "Walker-v1"),
        ("pkg.my_envs:scope/Walker-v1", "scope-Walker-v1"),
    ],
)
def test_an_id_with_a_module_or_a_namespace_is_one_folder(tmp_path, env, folder):
    path = create(tmp_path, env=env)

    assert path.relative_to(tmp_path).parts == (folder, "sac", "20261129-193632_s3")
    assert path.is_dir()


def test_runs_of_the_same_second_and_seed_get_directories_of_their_own(tmp_path):
    paths = [create(tmp_path) for _ in range(3)]

    assert [path.name for path in paths] == [
        "20261129-193632_s3",
        "20261129-193632_s3_2",
        "20261129-193632_s3_3",
    ]


def test_runs_that_start_at_once_get_directories_of_their_own(tmp_path):
    paths, barrier = [], threading.Barrier(8)

    def start():
        barrier.wait(30)
        paths.append(create(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(paths)) == 8


def test_a_chosen_name_is_taken_once(tmp_path):
    assert create(tmp_path, name="baseline").name == "baseline"
    with pytest.raises(FileExistsError, match="baseline"):
        create(tmp_path, name="baseline")
    assert create(tmp_path, name="baseline", algo="td3").parent.name == "td3"


def test_latest_points_to_the_newest_run(tmp_path):
    for env in ("A-v0", "B-v0", "A-v0"):
        path = create(tmp_path, env=env)
        assert (tmp_path / "latest").resolve() == path.resolve()
    assert sorted(os.listdir(tmp_path)) == ["A-v0", "B-v0", "latest"]


def test_latest_still_works_after_the_root_was_moved(tmp_path):
    path = create(tmp_path / "runs")
    os.rename(tmp_path / "runs", tmp_path / "elsewhere")

    assert (tmp_path / "elsewhere" / "latest" / "..").resolve().name == "sac"
    assert (tmp_path / "elsewhere" / "latest").resolve().name == path.name


def test_a_relative_root_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = create(rundir.Path("runs"))

    assert path.is_dir()
    assert (tmp_path / "runs" / "latest").resolve() == path.resolve()


def test_latest_is_a_convenience_and_no_failure(tmp_path):
    (tmp_path / "latest").mkdir()

    assert create(tmp_path).is_dir()


def test_a_root_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        create(tmp_path / "file")


def test_json_is_strict_also_for_nan_and_infinities(tmp_path):
    write_json(
        tmp_path / "x.json",
        {
            "nan": float("nan"),
            "list": [1.5, float("inf"), {"deep": float("-inf")}],
            "tuple": (None, True, "é"),
        },
    )

    assert strict((tmp_path / "x.json").read_text()) == {
        "nan": "nan",
        "list": [1.5, "inf", {"deep": "-inf"}],
        "tuple": [None, True, "é"],
    }


def test_json_is_replaced_as_a_whole_and_leaves_no_draft(tmp_path):
    write_json(tmp_path / "x.json", {"version": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"version": object()})
    assert strict((tmp_path / "x.json").read_text()) == {"version": 1}

    write_json(tmp_path / "x.json", {"version": 2})
    assert strict((tmp_path / "x.json").read_text()) == {"version": 2}
    assert os.listdir(tmp_path) == ["x.json"]


def test_the_summary_has_exactly_these_keys_in_this_order(tmp_path):
    write_summary(tmp_path, RunSummary(status="completed", reason="all env steps done", exit_code=0))

    assert list(strict((tmp_path / "summary.json").read_text())) == [
        "status",
        "reason",
        "exit_code",
        "env_steps",
        "updates",
        "ticks",
        "wall_time_s",
        "env_steps_per_s",
        "updates_per_s",
        "final_eval_mean",
        "final_eval_std",
        "best_eval_mean",
        "best_return",
        "mean_ep_length",
        "learner_digest",
        "replay_digest",
        "skipped_steps",
        "restarts",
        "checkpoint",
        "trace",
    ]


def test_what_was_not_measured_is_null_and_never_zero(tmp_path):
    write_summary(tmp_path, RunSummary(status="failed", reason="did not start", exit_code=1))
    summary = strict((tmp_path / "summary.json").read_text())

    for name in ("final_eval_mean", "final_eval_std", "best_return", "mean_ep_length", "checkpoint", "trace"):
        assert summary[name] is None
    assert (summary["env_steps"], summary["updates"], summary["ticks"]) == (0, 0, 0)


def test_a_full_summary_is_read_back_as_it_was(tmp_path):
    summary = RunSummary(
        status="interrupted", reason="stopped by SIGINT", exit_code=130, env_steps=3000, best_return=-120.5
    )
    write_summary(tmp_path, summary)

    assert strict((tmp_path / "summary.json").read_text()) == asdict(summary)


def test_the_origin_of_a_run_is_json_and_names_versions_arguments_and_host(monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py", "--seed", "3"])
    found = strict(json.dumps(origin()))

    assert found["argv"] == ["train.py", "--seed", "3"]
    assert {"python", "torch", "numpy"} <= set(found["versions"])
    assert set(found["host"]) == {"name", "system", "cores"}
    assert found["git"] is None or set(found["git"]) == {"commit", "dirty"}


def test_without_git_the_origin_says_so(monkeypatch):
    def no_git(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(rundir.subprocess, "run", no_git)

    assert origin()["git"] is None

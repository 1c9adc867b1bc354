"""A disk that is full, read-only or gone: training goes on where it can, and the exit code says what was lost."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from faults import LONG, TOY, checkpoints, kill, last_error, nothing_left, run_dir
from program import Program, Start
from unilab.checkpoint import load_checkpoint

OFTEN = ["--log-every", "10", "--save-every", "500", "--trace"]


def limited(kilobytes: int) -> str:
    """No file grows beyond this; shared memory neither."""
    return f'ulimit -f {kilobytes}; exec "$@"'


def test_files_that_cannot_grow_cost_rows_and_never_the_run(start: Start) -> None:
    program = start(*TOY, *OFTEN, "--total-steps", "4000", "--buffer-size", "1000", shell=limited(150))

    assert program.end() == 1, program.text
    assert "Traceback" not in program.text
    assert "progress.csv could not be written: File too large; training goes on" in program.text
    assert "the TensorBoard file could not be written: File too large; training goes on" in program.text
    summary = program.summary
    assert (summary["status"], summary["exit_code"], summary["env_steps"]) == ("completed", 1, 4000)
    assert "progress.csv could not be written: File too large" in str(summary["reason"])
    with open(run_dir(program) / "progress.csv") as file:
        assert all(None not in row.values() and row["env_steps"].isdigit() for row in csv.DictReader(file))
    assert load_checkpoint(checkpoints(program)[-1])["env_steps"] == 4000
    nothing_left(program)


def test_a_checkpoint_that_does_not_fit_is_told_and_the_run_ends_with_1(start: Start) -> None:
    few = ["--total-steps", "1500", "--save-every", "500", "--hidden", "128", "128"]
    program = start(*TOY, *few, shell=limited(300))

    assert program.end() == 1, program.text
    assert "Traceback" not in program.text
    assert "could not be saved: File too large; training goes on" in program.text
    assert "could not be saved: File too large" in last_error(program)
    assert (program.summary["status"], program.summary["env_steps"]) == ("completed", 1500)
    assert list((run_dir(program) / "checkpoints").iterdir()) == []


@pytest.mark.slow
def test_a_run_directory_that_vanishes_is_made_again(start: Start) -> None:
    program = start(*TOY, "--log-every", "100", "--save-every", "500", "--total-steps", "1M")
    program.until(lambda: checkpoints(program), "a checkpoint")
    folder = run_dir(program)
    shutil.rmtree(folder)
    program.until(lambda: "progress.csv is written again" in program.text, "scalars")
    program.process.terminate()

    assert program.end(20) == 143, program.text
    assert "Traceback" not in program.text
    assert "progress.csv was removed; training goes on" in program.text
    summary = json.loads((folder / "summary.json").read_text())
    assert load_checkpoint(Path(summary["checkpoint"]))["env_steps"] == summary["env_steps"]
    nothing_left(program)


@pytest.mark.parametrize(("limit", "code"), [(20, 2), pytest.param(32, 1, marks=pytest.mark.slow), (64, 0)])
def test_a_low_limit_of_descriptors_is_enough_or_named(start: Start, limit: int, code: int) -> None:
    few = ["--eval-episodes", "1", "--total-steps", "300"]
    program = start(*TOY, *few, shell=f'ulimit -n {limit}; exec "$@"')

    assert program.end() == code, program.text
    assert "Traceback" not in program.text
    if code:
        assert "`ulimit -n" in last_error(program)
    nothing_left(program) if code != 2 else None


@pytest.mark.slow
def test_two_runs_that_start_at_once_in_one_place_do_not_meet(start: Start) -> None:
    first = start(*LONG, "--save-every", "500")
    both = ["--log-dir", str(first.log_dir)]
    second = start(*TOY, *both, "--total-steps", "1000")
    assert second.end() == 0, second.text
    first.until(lambda: len(folders(first)) == 2, "two run directories")
    first.until(lambda: any((folder / "checkpoints").is_dir() for folder in folders(first)), "a checkpoint")
    kill(first.collectors()[0])

    assert first.end(10) == 70, first.text
    ends = sorted(json.loads((folder / "summary.json").read_text())["exit_code"] for folder in folders(first))
    assert ends == [0, 70]


def folders(program: Program) -> list[Path]:
    return [file.parent for file in program.log_dir.glob("*/*/*/config.yaml")]


# ------------------------------------------------------------ as root: file systems of their own


def on_tmpfs(kilobytes: int, then: str = "") -> str:
    """Runs with a small file system at ./small that only it sees."""
    mount = f"mkdir -p small && mount -t tmpfs -o size={kilobytes}k none small"
    return f"""exec unshare -m bash -c '{mount}; {then} "$@"; code=$?; cp -r small seen; exit $code' bash "$@" """


@pytest.mark.root
def test_a_full_file_system_costs_checkpoints_and_never_the_run(start: Start) -> None:
    few = ["--total-steps", "4000", "--hidden", "64", "64", "--log-dir", "small"]
    program = start(*TOY, *OFTEN, *few, shell=on_tmpfs(600))

    assert program.end() == 1, program.text
    assert "Traceback" not in program.text
    assert "No space left on device" in program.text
    assert "env_steps=4000 done=100.0%" in program.text
    assert program.left_over() == []


@pytest.mark.root
def test_checkpoints_that_become_read_only_cost_checkpoints_and_never_the_run(start: Start) -> None:
    few = ["--total-steps", "6000", "--log-dir", "small", "--env-kwargs", "step_ms=1"]
    # A mount with open files cannot be made read-only by hand; a read-only one in the way of the next save can be.
    mount = "mount -t tmpfs -o ro none small/*/*/*/checkpoints"
    later = f"(until ls small/*/*/*/checkpoints/step_* 2>/dev/null; do sleep 0.1; done; {mount}) >/dev/null &"
    program = start(*TOY, *OFTEN, *few, shell=on_tmpfs(100_000, later))

    assert program.end() == 1, program.text
    assert "Traceback" not in program.text
    assert "Read-only file system" in program.text
    assert "env_steps=6000 done=100.0%" in program.text
    assert program.left_over() == []


@pytest.mark.root
def test_a_read_only_log_dir_is_refused_before_anything_starts(start: Start) -> None:
    program = start(
        *TOY, "--total-steps", "300", "--log-dir", "small", shell=on_tmpfs(1000, "mount -o remount,ro small;")
    )

    assert program.end() == 2, program.text
    assert "Traceback" not in program.text
    assert "Read-only file system" in program.text.splitlines()[-1]


@pytest.mark.root
@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_dev_shm_may_be_tiny_or_read_only(start: Start, options: str) -> None:
    few = ["--eval-episodes", "1", "--buffer-size", "1M", "--total-steps", "1000"]
    mount = f"mount -t tmpfs -o {options} none /dev/shm"
    shell = f"""exec unshare -m bash -c '{mount}; "$@"' bash "$@" """
    first = start(*TOY, *few, shell=shell)
    assert first.end() == 0, first.text
    again = start("--resume", str(run_dir(first)), "--total-steps", "2000", shell=shell)
    assert again.end() == 0, again.text
    assert "they start new episodes" not in again.text  # the state of the envs was saved and taken over


@pytest.fixture(autouse=True)
def _mounts_need_root(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root"):
        done = subprocess.run(["unshare", "-m", "true"], capture_output=True)
        assert done.returncode == 0, "these tests mount file systems of their own: run them as root"

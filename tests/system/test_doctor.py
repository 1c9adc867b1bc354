"""``unilab doctor`` as its user sees it: what it prints, its exit code, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from program import ENVS, SMALL

MAIN = "import sys; from unilab.main import main; sys.exit(main())"


@dataclass
class Started:
    process: subprocess.Popen[str]
    folder: Path
    mark: str

    def end(self, deadline_s: float = 90.0) -> tuple[int, str, str]:
        """Exit code, output and errors, after a look at what was left behind."""
        out, err = self.process.communicate(timeout=deadline_s)
        assert os.listdir(self.folder / "tmp") == []
        assert os.listdir(self.folder / "cwd") == []
        end = time.monotonic() + 8
        while self.marked() and time.monotonic() < end:
            time.sleep(0.05)  # nobody tells when a stranger ends
        assert self.marked() == []
        return self.process.returncode, out, err

    def marked(self) -> list[int]:
        """Processes of this run, whoever their parent is now."""
        return [int(entry) for entry in filter(str.isdigit, os.listdir("/proc")) if self.mark in _environment(entry)]


def _environment(entry: str) -> str:
    try:
        return Path(f"/proc/{entry}/environ").read_text(errors="replace")
    except OSError:
        return ""


Doctor = Callable[..., Started]


@pytest.fixture
def doctor(tmp_path: Path) -> Iterator[Doctor]:
    """Start ``unilab doctor`` with these words in an empty folder, under a shell's limits if there are any."""
    started: list[Started] = []

    def start(*words: str, limits: str = "true") -> Started:
        for name in ("tmp", "cwd"):
            (tmp_path / name).mkdir()
        mark = uuid.uuid4().hex
        environment = os.environ | {"PYTHONPATH": str(ENVS), "TMPDIR": str(tmp_path / "tmp"), "DOCTOR_TEST": mark}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = ["bash", "-c", f'{limits} && exec "$0" "$@"', sys.executable, "-c", MAIN, "doctor", *SMALL, *words]
        process = subprocess.Popen(
            command,
            cwd=tmp_path / "cwd",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(Started(process, tmp_path, mark))
        return started[-1]

    yield start
    for one in started:
        for pid in one.marked():
            os.kill(pid, signal.SIGKILL)
        one.process.wait()


def failures(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("FAIL")]


def test_the_toy_env_is_all_ok_and_a_full_cycle_of_it_is_timed(doctor: Doctor) -> None:
    code, out, err = doctor("--env", "unilab/Toy-v0", "--compile", "off").end()

    assert code == 0, out + err
    *lines, verdict = out.splitlines()
    assert all(line.startswith("ok ") for line in lines), out
    assert verdict == f"{len(lines)} ok, 0 warn, 0 FAIL: this run can start"
    assert re.search(r"^ok +dry run +first env step after [\d.]+ s, first update after [\d.]+ s", out, re.M)
    assert re.search(r"^ok +duration +[\d.,]+ env steps/s and [\d.,]+ updates/s .*about .* for 60,000", out, re.M)


@pytest.mark.slow
def test_json_holds_the_same_findings_and_nothing_stands_beside_it(doctor: Doctor) -> None:
    code, out, _ = doctor("--env", "sample_envs:Raises-v0", "--json").end()

    content = json.loads(out)
    assert code == content["exit_code"] == 2
    [failed] = [finding for finding in content["findings"] if finding["level"] == "FAIL"]
    assert "its step raised ValueError: the env raises on purpose" in failed["saw"]
    assert "sample_envs.py" in failed["detail"]


@pytest.mark.parametrize(
    ("env", "phase", "place"),
    [
        ("HangsInConstructor-v0", "its constructor did not return", "in connect"),
        pytest.param("HangsInStep-v0", "its step did not return", "in misbehave", marks=pytest.mark.slow),
    ],
)
def test_an_env_that_hangs_is_named_with_its_phase_and_place(doctor: Doctor, env: str, phase: str, place: str) -> None:
    code, out, _ = doctor("--env", f"doctor_envs:{env}", "--deadline", "12").end()

    assert code == 2
    assert f"{phase} within 12 s" in failures(out)[0]
    assert place in out


@pytest.mark.slow
def test_an_env_that_kills_its_process_is_named_with_the_signal(doctor: Doctor) -> None:
    code, out, _ = doctor("--env", "doctor_envs:KilledInStep-v0").end()

    assert code == 2
    assert "signal 6 (SIGABRT)" in failures(out)[0]


@pytest.mark.slow
def test_a_process_left_behind_and_a_failure_of_the_full_cycle_are_both_named(doctor: Doctor) -> None:
    code, out, _ = doctor("--env", "doctor_envs:LeavesChild-v0").end()

    assert code == 2
    assert re.search(r"^warn +processes +\d+ still live after close: sleep 3600 \(pid \d+\)", out, re.M)
    assert failures(out)[0].split()[1:3] == ["dry", "run"]
    assert "exit code 70" in failures(out)[0]
    assert "ValueError: only in a run" in out


def test_machine_limits_are_failures_before_anything_is_tried(doctor: Doctor) -> None:
    code, out, _ = doctor("--env", "Pendulm-v1", "--log-dir", "/proc/runs", limits="ulimit -n 30").end()

    assert code == 2
    found = {line.split()[1]: line for line in failures(out)}
    assert "may open 30; raise the limit: `ulimit -n 1024`" in found["descriptors"]
    assert "nothing can be written in /proc" in found["log"]


@pytest.mark.slow
def test_an_interrupt_ends_the_doctor_and_its_child(doctor: Doctor) -> None:
    started = doctor("--env", "doctor_envs:HangsInConstructor-v0")
    end = time.monotonic() + 60
    while not _hangs(started):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(started.process.pid, signal.SIGINT)
    code, _, err = started.end(10)

    assert code == 130
    assert err == "unilab: doctor stopped by SIGINT\n"


def _hangs(started: Started) -> bool:
    """Whether the child has begun: its stack file exists."""
    return any(started.folder.glob("tmp/unilab-doctor-*/env/stack.txt"))


# ------------------------------------------------------------ the same checks before a run


@pytest.mark.parametrize(("limit", "code", "last"), [(30, 2, "error: "), (64, 0, "env_steps=")])
def test_a_run_with_few_descriptors_is_refused_or_warned_of(tmp_path: Path, limit: int, code: int, last: str) -> None:
    words = ["--env", "unilab/Toy-v0", *SMALL, "--total-steps", "100", "--eval-episodes", "0", "--serial"]
    done = subprocess.run(
        ["bash", "-c", f'ulimit -n {limit} && exec "$0" "$@"', sys.executable, "-c", MAIN, "train", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
    )

    lines = done.stdout.splitlines()
    assert done.returncode == code, done.stdout
    assert any(line.startswith(last) for line in (lines[-1:] if code else lines))
    [said] = [line for line in lines if "a process needs about" in line]
    assert said.startswith("error: a process" if code else "warning: descriptors: a process")
    assert f"may open {limit}" in said
    assert done.stderr == ""

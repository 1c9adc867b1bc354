"""``scripts/view.py`` as a user runs it: native tasks through OpenGL, and the policy of a finished run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from program import REPOSITORY, SMALL, Start
from unilab.restore import load_policy
from unilab.view.gl import choose_gl

PAINTED = REPOSITORY / "tests/view"  # where painted_env.py is


@pytest.fixture(scope="module")
def gl() -> None:
    trouble = choose_gl(dict(os.environ))
    if trouble:
        pytest.skip(trouble)


def view(folder: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return python(folder, str(REPOSITORY / "scripts/view.py"), *map(str, words), **variables)


def views(folder: Path, *commands: str) -> None:
    """One after the other in one process, whose start is what takes time."""
    program = "import sys; from unilab.cli import view_main; sys.exit(any(view_main(x.split()) for x in sys.argv[1:]))"
    done = python(folder, "-c", program, *commands)
    assert done.returncode == 0, done.stderr


def python(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PAINTED)} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def picture(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path)).astype(float)


def test_a_native_task_looks_as_gymnasium_draws_it(gl: None, tmp_path: Path) -> None:
    """Both backends make the same transitions, so a camera of the model must see the same."""
    words = "--env HalfCheetah-v5 --random --camera track --size 320x240"
    views(
        tmp_path,
        f"{words} --backend mujoco --steps 30 --image mujoco.png",
        f"{words} --backend gymnasium --steps 30 --image gymnasium.png",
        f"{words} --backend gymnasium --steps 1 --image begin.png",
    )

    native, gymnasium, begin = (picture(tmp_path / f"{name}.png") for name in ("mujoco", "gymnasium", "begin"))
    assert np.abs(native - gymnasium).mean() < 4  # shadows; one step more or less is 20
    assert np.abs(begin - gymnasium).mean() > 8


def test_a_grid_of_native_robots_has_the_single_one_in_its_first_tile(gl: None, tmp_path: Path) -> None:
    words = "--env Ant-v5 --random --seed 3 --steps 8"
    views(
        tmp_path,
        f"{words} --size 80x60 --image one.png --video one.mp4",
        f"{words} --size 80x60 --image again.png --video again.mp4",
        f"{words} --size 160x120 --image four.png --video four.mp4 --envs 4",
    )

    one, again, four = (picture(tmp_path / f"{name}.png") for name in ("one", "again", "four"))
    assert np.array_equal(one, again)
    assert np.array_equal(four[:60, :80], one)
    assert np.abs(four[:60, 80:] - one).mean() > 1
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "again.mp4").read_bytes()
    with av.open(str(tmp_path / "four.mp4")) as video:
        frames = list(video.decode(video=0))
        assert (len(frames), frames[0].width, frames[0].height) == (8, 160, 120)
        assert video.streams.video[0].average_rate == 20  # the control rate of Ant


def test_an_opengl_that_does_not_work_is_one_sentence(tmp_path: Path) -> None:
    done = view(tmp_path, "--env", "Ant-v5", "--random", "--image", "out.png", MUJOCO_GL="none-such")

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no OpenGL renders here" in done.stderr
    assert "libegl1" in done.stderr
    assert not (tmp_path / "out.png").exists()


def painted_run(start: Start) -> Path:
    """Log directory of a finished run of 40 env steps."""
    words = ("--env", "painted_env:Painted-v0", "--total-steps", "40", "--learning-starts", "20", "--serial")
    run = start(*words, *SMALL, shell=f'PYTHONPATH="{PAINTED}" exec "$@"')
    assert run.process.wait(120) == 0, run.text
    return run.log_dir


def test_a_finished_runs_policy_acts_without_noise_or_with_it(start: Start) -> None:
    out = painted_run(start)
    checkpoint = next((out / "latest").resolve().glob("checkpoints/step_*"))
    rest = f"--log-dir {out} --steps 4 --size 64x48 --image"
    views(
        out,
        f"--run latest --checkpoint last {rest} calm.png",
        f"--run latest --stochastic {rest} noisy.png",
        f"--checkpoint {checkpoint} {rest} same.png",
    )
    calm, noisy, same = (picture(out / f"{name}.png")[0, 0, 2] for name in ("calm", "noisy", "same"))

    policy, _ = load_policy(checkpoint)
    action = policy.act({"obs": np.array([[np.cos(3), np.sin(3)]], np.float32)})[0, 0]
    assert calm == same == round(127.5 * (float(action) + 1))
    assert noisy != calm


def test_what_does_not_fit_a_run_is_named(start: Start) -> None:
    out = painted_run(start)

    for words, said in (
        (("--checkpoint", "30"), "holds none of that many env steps; it has 40"),
        (("--env-kwargs", "obs_dim=3"), "with these options obs_dim is 3, but the policy was trained with 2"),
    ):
        done = view(out, "--log-dir", out, "--run", "latest", *words, "--image", "out.png")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert said in done.stderr

"""The Python API in a program of its own: scripts without a main guard, pipes, -c, notebooks, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from program import ENVS

pytestmark = pytest.mark.timeout(700)  # a busy machine takes its time over the imports of three processes

SCRIPT = """
from unilab import SAC
small = dict(num_envs=2, hidden=[8, 8], batch_size=8, buffer_size=2000, learning_starts=40, threads=1)
model = SAC({env}, seed=1, eval_episodes=1, eval_max_steps=5, **small)
model.learn({steps})
print("learnt", model.num_timesteps, model.summary.status)
"""

NOTEBOOK = """
import code, sys
shell = code.InteractiveInterpreter({"__name__": "__main__"})
for cell in sys.stdin.read().split("#---"):
    shell.runsource(cell, "<cell>", "exec")
"""


def script(env: str = '"unilab/Toy-v0"', steps: int = 100) -> str:
    return SCRIPT.format(env=env, steps=steps)


def run(folder: Path, words: list[str], source: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ENVS)}
    return subprocess.run(
        [sys.executable, *words], input=source, capture_output=True, text=True, cwd=folder, env=environment, timeout=600
    )


@pytest.mark.parametrize("way", ["file", "stdin", "-c", "notebook"])
def test_a_program_without_a_main_guard_trains_once(tmp_path: Path, way: str) -> None:
    (tmp_path / "train_me.py").write_text(script())
    done = {
        "file": lambda: run(tmp_path, ["train_me.py"]),
        "stdin": lambda: run(tmp_path, ["-"], script()),
        "-c": lambda: run(tmp_path, ["-c", script()]),
        "notebook": lambda: run(tmp_path, ["-c", NOTEBOOK], script()),
    }[way]()

    assert (done.returncode, done.stdout) == (0, "learnt 100 completed\n"), done.stderr
    assert len(list((tmp_path / "runs/unilab-Toy-v0/sac").iterdir())) == 1


MY_ENV = """
import gymnasium as gym, numpy as np
class Plain(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}
"""


def test_an_env_that_only_the_script_registers_reaches_the_processes(tmp_path: Path) -> None:
    (tmp_path / "my_env.py").write_text(MY_ENV)
    register = "gym.register('Here-v0', entry_point=my_env.Plain, max_episode_steps=20)\n"
    (tmp_path / "train_me.py").write_text("import gymnasium as gym, my_env\n" + register + script('"Here-v0"'))
    done = run(tmp_path, ["train_me.py"])

    assert (done.returncode, done.stdout) == (0, "learnt 100 completed\n"), done.stderr


def test_a_class_in_the_script_itself_is_refused_in_a_sentence(tmp_path: Path) -> None:
    source = "import gymnasium as gym\nclass Mine(gym.Env): pass\n" + script("Mine")
    done = run(tmp_path, ["-"], source)

    assert done.returncode == 1
    assert "defined in the script or notebook itself; put it into a file of its own" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_in_a_notebook_saves_and_the_next_cell_goes_on(tmp_path: Path) -> None:
    cells = (
        script(steps=10**7)
        + "\n#---\nprint('stopped', model.summary.status)\n"
        + "before = model.num_timesteps\nmodel.learn(50)\nprint('more', model.num_timesteps - before)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ENVS)}
    process = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert process.stdin is not None
    process.stdin.write(cells)
    process.stdin.close()
    process.stdin = None
    end = time.monotonic() + 300
    rows = tmp_path / "runs/latest/progress.csv"
    while not rows.exists() or rows.read_text().count("\n") < 2:
        assert time.monotonic() < end, "no row of progress.csv"
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)

    assert "KeyboardInterrupt" in err, f"exit code {process.returncode}: {out}"
    assert out == "stopped interrupted\nmore 50\n", err
    assert json.loads((tmp_path / "runs/latest/summary.json").read_text())["status"] == "completed"

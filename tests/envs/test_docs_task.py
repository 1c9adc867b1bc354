"""The native task in docs/envs.md works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs/envs.md"


def test_the_task_in_the_docs_runs_and_is_short(tmp_path):
    (code,) = re.findall(r"```python\n(# my_task\.py.*?)```", DOCS.read_text(), re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) < 30
    (tmp_path / "my_task.py").write_text(code)
    use = (
        "import numpy as np; from unilab.envs.registry import *\n"
        "env = make_env(EnvConfig(env='my_task:Balance-v0', num_envs=4, env_kwargs={'effort': 0.5}), seed=0)\n"
        "assert env.reset()['obs'].shape == (4, 4)\n"
        "steps = [env.step(np.full((4, 1), 0.5, np.float32)) for _ in range(100)]\n"
        "assert any(step.terminated.any() for step in steps)\n"
        "assert steps[0].reward.tolist() == [0.875] * 4\n"
    )
    subprocess.run([sys.executable, "-c", use], check=True, cwd=tmp_path)

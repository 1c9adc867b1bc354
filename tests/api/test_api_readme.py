"""The Python example of the README runs as it stands, but for its size."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    section = README.split("### From Python")[1].split("\n### ")[0]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    small = "seed=1, serial=True, hidden=(8, 8), batch_size=8, eval_episodes=1, eval_max_steps=20"
    assert code.count("seed=1") == 1
    assert code.count("100_000") == 1
    monkeypatch.chdir(tmp_path)

    exec(code.replace("seed=1", small).replace("100_000", "300"), {})

    assert (tmp_path / "runs/latest/summary.json").is_file()
    assert (tmp_path / "cheetah.pt").is_file()
    assert "mean_reward" in capsys.readouterr().out

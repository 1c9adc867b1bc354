"""Losses of a short run through the whole machine, against those that were committed.

Whatever changes a draw, an order, a count or an update rule shows here. Regenerate after a change that is meant:
``.venv/bin/python tests/system/test_golden_run.py``.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

import pytest
from torch.backends.cpu import get_cpu_capability

from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.replay import ReplayConfig
from unilab.train import train

GOLDEN = Path(__file__).with_name("golden_run.json")
# The file was written on a processor with AVX-512. On another one FlashSAC's rounding differs, and grows a hundredfold
# with each row (AVX2: 1e-8 in the first, 1e-2 in the fifth): only the first rows say something about the program there.
ROWS = dict.fromkeys(ALGORITHMS, 5) | ({} if get_cpu_capability() == "AVX512" else {"flashsac": 2})
COLUMNS = ("train/critic_loss", "train/actor_loss", "train/q_mean", "rollout/reward_per_step", "lag/row_age")


def losses(folder: Path, algo: str, *, serial: bool) -> list[dict[str, float]]:
    """Scalars of progress.csv, every 100 env steps of a run of 500."""
    cfg = TrainConfig(
        algo=algo,
        total_steps=500,
        threads=2,
        seed=1,
        log_dir=folder,
        log_every=100,
        serial=serial,
        env=EnvConfig(env="Pendulum-v1", num_envs=4),
        learner=LearnerConfig(hidden=(32, 32), learning_rate=1e-3, policy_delay=2, norm_obs=True),
        replay=ReplayConfig(batch_size=32, buffer_size=300, learning_starts=100),
        evaluation=EvaluationConfig(eval_episodes=0),
    )
    run = Path(str(train(cfg).checkpoint)).parent.parent
    rows = list(csv.DictReader((run / "progress.csv").open()))
    return [{name: float(row[name]) for name in COLUMNS} for row in rows if row["train/critic_loss"]]


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_short_run_has_the_committed_losses(tmp_path: Path, algo: str, serial: bool) -> None:
    golden = json.loads(GOLDEN.read_text())[algo]
    now = losses(tmp_path, algo, serial=serial)

    assert len(now) == len(golden) == 5
    for row, expected in zip(now[: ROWS[algo]], golden[: ROWS[algo]], strict=True):
        assert row == pytest.approx(expected, rel=1e-3)


def main() -> int:
    """Write the file anew."""
    golden = {}
    for algo in ALGORITHMS:
        with tempfile.TemporaryDirectory() as folder:
            golden[algo] = losses(Path(folder), algo, serial=True)
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

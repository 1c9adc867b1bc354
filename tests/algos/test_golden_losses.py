"""Losses of a short run, committed: a change of the numbers has to be meant.

After a change that is meant: ``python tests/algos/test_golden_losses.py`` writes them anew.
"""

import json
from pathlib import Path

import pytest
from toy_learners import ALGOS, learner, minibatch

from unilab.algos.base import LearnerConfig

FILE = Path(__file__).with_name("golden_losses.json")
CFG = LearnerConfig(hidden=(32, 32), learning_rate=1e-3, policy_delay=2, norm_obs=True)


def short_run(algo: str) -> list[dict[str, float]]:
    """Metrics of 20 updates."""
    made, metrics = learner(algo, CFG), []
    for seed in range(20):
        rows = minibatch(seed)
        made.observe(rows.obs, None)
        told = {name: value.item() for name, value in made.update(rows).items()}
        assert told.pop("learning_rate") == pytest.approx(CFG.learning_rate)
        metrics.append(told)
    return metrics


@pytest.mark.parametrize("algo", ALGOS)
def test_a_short_run_gives_the_committed_losses(algo):
    expected = json.loads(FILE.read_text())[algo]

    for got, wanted in zip(short_run(algo), expected, strict=True):
        assert got == pytest.approx(wanted, rel=1e-4)


if __name__ == "__main__":
    FILE.write_text(json.dumps({algo: short_run(algo) for algo in ALGOS}, indent=1) + "\n")

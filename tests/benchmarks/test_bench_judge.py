import numpy as np
import pytest
from judge import Judge, load_unilab

from unilab.checkpoint import list_checkpoints
from unilab.cli import parse
from unilab.train import train


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    options = "--serial --env Pendulum-v1 --hidden 8 8 --total-steps 80 --learning-starts 16 --batch-size 8 --name run"
    train(parse([*options.split(), "--eval-every", "0", "--eval-episodes", "0", "--log-dir", str(folder)]))
    return list_checkpoints(folder / "Pendulum-v1/sac/run/checkpoints")[-1]


def test_a_checkpoint_acts_between_the_bounds_of_the_env(checkpoint):
    actions = load_unilab(checkpoint)(np.random.default_rng(0).normal(0, 50, (200, 3)))

    assert actions.shape == (200, 1)
    assert np.abs(actions).max() <= 2.0  # Pendulum's
    assert np.abs(actions).max() > 1.0  # and not the policy's


def test_a_checkpoint_is_judged_on_whole_episodes(checkpoint):
    judge = Judge("Pendulum-v1", 2, 1, None)

    returns = judge.returns(checkpoint)

    assert (returns < -200).all()  # 200 steps of an untrained policy
    np.testing.assert_array_equal(judge.returns(checkpoint), returns)

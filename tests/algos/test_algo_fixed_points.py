"""One state, constant reward: the value that the critics must find can be worked out by hand."""

import pytest
import torch
from toy_learners import env_spec, learner

from unilab.algos.base import LearnerConfig
from unilab.spec import Minibatch

ROWS = 50
CFG = LearnerConfig(gamma=0.9, tau=0.2, learning_rate=1e-3, hidden=(32, 32))


def rows(reward: float, terminated: torch.Tensor, truncated: torch.Tensor, seed: int) -> Minibatch:
    obs = torch.tensor([0.5, -0.5]).repeat(ROWS, 1)
    action = torch.rand(ROWS, 1, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0
    return Minibatch(obs, action, torch.full((ROWS,), reward), obs, terminated, truncated, obs, obs)


def value(reward: float, terminated: torch.Tensor, truncated: torch.Tensor) -> float:
    """Mean Q over both critics and the last updates; which row of five ends is noise to a single one."""
    td3 = learner("td3", CFG, env=env_spec(obs_dim=2, action_dim=1))
    values = [td3.update(rows(reward, terminated, truncated, seed))["q_mean"] for seed in range(700)]
    return torch.stack(values[-200:]).mean().item()


ALL, NONE = torch.ones(ROWS, dtype=torch.bool), torch.zeros(ROWS, dtype=torch.bool)
EVERY_FIFTH = torch.arange(ROWS) % 5 == 0


@pytest.mark.parametrize(
    ("reward", "terminated", "truncated", "expected"),
    [
        pytest.param(1.0, NONE, ALL, 10.0, id="a time limit is no end: 1 / (1 - 0.9)"),
        pytest.param(1.0, EVERY_FIFTH, NONE, 3.571, id="one row in five ends: 1 / (1 - 0.9 * 0.8)"),
        pytest.param(0.5, NONE, ALL, 5.0, id="episodes of one step, cut off: 0.5 / (1 - 0.9)"),
        pytest.param(0.5, ALL, NONE, 0.5, id="episodes of one step, ended: the reward"),
        pytest.param(0.5, ALL, ALL, 0.5, id="both flags: ended"),
    ],
)
def test_q_finds_the_fixed_point(reward, terminated, truncated, expected):
    assert value(reward, terminated, truncated) == pytest.approx(expected, rel=0.05)

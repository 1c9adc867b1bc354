"""The whole machine reaches values that are known: rewards, ends and bootstrapping, from the env to the critic.

One observation for ever, so Q is one number (gamma 0.9). Sources: Pardo et al. 2018, arXiv:1712.00378.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS, make_learner
from unilab.checkpoint import load_checkpoint
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig, probe
from unilab.replay import ReplayConfig
from unilab.train import train

CASES = {
    # q = 1 + 0.9 q: every end is a time limit, and every row bootstraps.
    "limit": ({"length": 5, "reward": 1.0, "truncates": True}, 10.0),
    # q = 1 + 0.9 (4/5) q: one row in five is the end of the MDP.
    "death": ({"length": 5, "reward": 1.0, "terminates": True}, 3.571),
    # Both flags: the MDP's end counts, no bootstrap.
    "both": ({"length": 5, "reward": 1.0, "terminates": True, "truncates": True}, 3.571),
    "limit after one step": ({"length": 1, "reward": 0.5, "truncates": True}, 5.0),
    "death after one step": ({"length": 1, "reward": 0.5, "terminates": True}, 0.5),
    # 3 steps at once: q = (2 (2.71 + 0.729 q) + (2.71 + 0.729 q) + (1.9 + 0.81 q) + (1 + 0.9 q)) / 5.
    "limit, 3 steps": ({"length": 5, "reward": 1.0, "truncates": True}, 10.0),
    # q = (2 (2.71 + 0.729 q) + 2.71 + 1.9 + 1) / 5: three windows in five see the end.
    "death, 3 steps": ({"length": 5, "reward": 1.0, "terminates": True}, 3.114),
    "both, 3 steps": ({"length": 5, "reward": 1.0, "terminates": True, "truncates": True}, 3.114),
}

# What makes each one's value a plain sum of rewards, within the support of those that have one, and its updates.
ALGOS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "sac": ({"ent_coef": 1e-4}, {"tau": 0.05}, 2_000),
    "crossq": ({"ent_coef": 1e-4}, {}, 5_000),
    # Rewards are as they are: scaled by returns of five steps or one, what is worth ten lies beyond the supports.
    "fasttd3": ({"v_min": -20.0, "v_max": 20.0}, {"tau": 0.05}, 2_000),
    "fastsac": ({"v_min": -20.0, "v_max": 20.0, "ent_coef": 1e-4}, {"tau": 0.05}, 2_000),
    "flashsac": ({"value_bound": 20.0, "ent_coef": 1e-4}, {"tau": 0.05}, 2_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["limit", "death", "limit after one step", "death after one step"])
@pytest.mark.parametrize("algo", ALGOS)
def test_every_other_algorithm_finds_it_too(
    tmp_path: Path, algo: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    kwargs, value = CASES[case]
    own, shared, updates = ALGOS[algo]
    cfg = TrainConfig(
        algo=algo,
        total_steps=100 + updates,
        threads=2,
        serial=True,  # the same bits as two processes, in half the time
        log_dir=tmp_path,
        env=EnvConfig(env="sample_envs:OneState-v0", env_kwargs=kwargs, num_envs=2),
        learner=LearnerConfig(
            gamma=0.9, learning_rate=4e-4, policy_delay=2, hidden=(64, 64), norm_reward=False, **shared
        ),
        replay=ReplayConfig(batch_size=256, buffer_size=100 + updates, learning_starts=100),
        evaluation=EvaluationConfig(eval_episodes=2),
        **{algo: replace(ALGORITHMS[algo].config(), **own)},
    )
    summary = train(cfg)

    assert summary.mean_ep_length == kwargs["length"]
    assert summary.final_eval_mean == pytest.approx(kwargs["length"] * kwargs["reward"])
    q = critic_values(cfg, Path(str(summary.checkpoint)))
    # Nets whose layers see each other's batches are never quite still: 0.5 is 0.4 to 0.5 there.
    assert sum(q) / len(q) == pytest.approx(value, rel=0.05, abs=0.15)
    assert q == pytest.approx([value] * len(q), rel=0.2, abs=0.2)  # rare actions are known less well


@pytest.mark.parametrize("case", CASES)
def test_td3_finds_the_value_of_the_one_state(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    kwargs, value = CASES[case]
    n_step = 3 if case.endswith("3 steps") else 1
    # Sums differ by where in an episode they begin: more rows of each action, so that none is known by a few alone.
    starts = 100 if n_step == 1 else 2_100
    cfg = TrainConfig(
        algo="td3",
        total_steps=5_100,
        threads=2,
        serial=case not in ("limit", "death"),  # the same bits, sooner
        log_dir=tmp_path,
        env=EnvConfig(env="sample_envs:OneState-v0", env_kwargs=kwargs, num_envs=2),
        learner=LearnerConfig(
            gamma=0.9,
            n_step=n_step,
            tau=0.05,
            learning_rate=4e-4,
            policy_delay=2,
            hidden=(64, 64),
        ),
        replay=ReplayConfig(batch_size=256, buffer_size=5_100, learning_starts=starts),
        evaluation=EvaluationConfig(eval_episodes=2),
    )
    summary = train(cfg)

    assert summary.mean_ep_length == kwargs["length"]
    assert summary.best_return == pytest.approx(kwargs["length"] * kwargs["reward"])
    assert summary.final_eval_mean == pytest.approx(kwargs["length"] * kwargs["reward"])
    q = critic_values(cfg, Path(str(summary.checkpoint)))
    assert sum(q) / len(q) == pytest.approx(value, rel=0.05)
    assert q == pytest.approx([value] * len(q), rel=0.1)  # rare actions are known less well


def critic_values(cfg: TrainConfig, checkpoint: Path) -> list[float]:
    """Smaller critic at the one observation, for actions over the whole range."""
    learner: Any = make_learner(cfg.algo, probe(cfg.env), cfg.learner, cfg.algo_config, seed=0, device="cpu")
    learner.load_state_dict(load_checkpoint(checkpoint)["learner"])
    action = torch.linspace(-1, 1, 5)[:, None]
    obs = torch.tensor([[0.5, -0.5]]).expand(5, 2)
    return learner.q_values(obs, action).min(0).values.tolist()

"""Policies that get a latent of what only critics see: from the env to evaluation, resume, export and prediction."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from test_lockstep import digests
from test_resume import go_on, run_of, scalars
from unilab import SAC
from unilab.algos.base import LearnerConfig
from unilab.algos.registry import ALGORITHMS
from unilab.cli import evaluate_main, export_main
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig, make_env
from unilab.errors import ConfigError, EnvError
from unilab.pacing import PacingConfig
from unilab.replay import ReplayConfig
from unilab.restore import load_policy
from unilab.resume import check_changes, open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train

TOY = EnvConfig(env="unilab/Toy-v0", num_envs=3, env_kwargs={"critic_extra": 2})
WHISPERS = EnvConfig(env="sample_envs:Whispers-v0", num_envs=4, critic_keys=("where", "load"))
QUADRUPED = EnvConfig(env="unilab/QuadrupedVelocity-v0", num_envs=4, env_kwargs={"max_episode_steps": 25})


@pytest.fixture(autouse=True)
def _sample_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))


def config(log_dir: Path, env: EnvConfig, **changes: Any) -> TrainConfig:
    learner = {"hidden": (16, 16), "norm_obs": True, "privileged_encoder": (16, 4), **changes.pop("learner", {})}
    cfg = TrainConfig(
        total_steps=600,
        threads=2,
        serial=True,
        log_dir=log_dir,
        log_every=140,
        seed=4,
        env=env,
        learner=LearnerConfig(**learner),
        replay=ReplayConfig(batch_size=32, buffer_size=5_000, learning_starts=100),
        pacing=PacingConfig(utd=0.25),
        evaluation=EvaluationConfig(eval_episodes=3, eval_every=300, eval_max_steps=25),
    )
    return dataclasses.replace(cfg, **changes)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_run_goes_on_bit_by_bit(tmp_path: Path, algo: str) -> None:
    whole = train(config(tmp_path / "whole", TOY, algo=algo, learner={"norm_reward": True}))
    half = train(config(tmp_path / "half", TOY, algo=algo, learner={"norm_reward": True}, total_steps=360))
    both = go_on(run_of(half), total_steps=600)

    assert digests(both) == digests(whole)
    assert scalars(run_of(both)) == scalars(run_of(whole))
    assert whole.final_eval_mean is not None


def test_with_n_steps_and_the_mirror_it_goes_on_bit_by_bit_too(tmp_path: Path) -> None:
    with_all = {"n_step": 3, "symmetry": True}
    whole = train(config(tmp_path / "whole", QUADRUPED, learner=with_all))
    half = train(config(tmp_path / "half", QUADRUPED, learner=with_all, total_steps=360))

    assert digests(go_on(run_of(half), total_steps=600)) == digests(whole)


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_two_processes_give_the_bits_of_serial_mode(tmp_path: Path, vec: Any) -> None:
    env = dataclasses.replace(WHISPERS, vec=vec)

    assert digests(train(config(tmp_path, env, serial=False))) == digests(train(config(tmp_path, WHISPERS)))


@pytest.fixture(scope="module")
def whispered(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """A run long enough to learn to do what only critics are told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
        return learnt(tmp_path_factory.mktemp("whispers"), (16, 4))


def learnt(log_dir: Path, encoder: tuple[int, ...]) -> RunSummary:
    learner = {"privileged_encoder": encoder, "learning_rate": 3e-3, "gamma": 0.0}
    return train(config(log_dir, WHISPERS, total_steps=3_000, learner=learner))


def test_the_actor_learns_from_it_what_it_cannot_see(tmp_path: Path, whispered: RunSummary) -> None:
    blind = learnt(tmp_path, ())

    # 25 steps; the best that a blind actor can do is to stay in the middle, 0.5 away on average.
    assert blind.final_eval_mean is not None
    assert whispered.final_eval_mean is not None
    assert blind.final_eval_mean < -11.0
    assert whispered.final_eval_mean > -3.0


def test_evaluate_gets_the_returns_of_the_run(whispered: RunSummary, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate_main(["--run", str(run_of(whispered)), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["mean_reward"] == whispered.final_eval_mean


def test_the_exported_policy_has_a_second_input_and_says_so(
    tmp_path: Path, whispered: RunSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export_main(["--checkpoint", str(whispered.checkpoint), "--out", str(tmp_path / "bundle")]) == 0
    about = json.loads((tmp_path / "bundle/metadata.json").read_text())
    exported = onnxruntime.InferenceSession(tmp_path / "bundle/policy.onnx")
    policy, cfg = load_policy(Path(str(whispered.checkpoint)))
    groups = make_env(cfg.env, seed=9, role="eval").reset()

    inputs = {"obs": groups["obs"], "privileged": groups["critic"][:, 2:]}
    action = exported.run(["action"], inputs)[0]

    assert [node.name for node in exported.get_inputs()] == ["obs", "privileged"]
    assert np.abs(action / 2 - policy.act(groups)).max() <= 1e-5
    assert about["observation"]["keys"] == ["noise"]
    assert (about["privileged"]["dim"], about["privileged"]["keys"]) == (3, ["load", "where"])
    assert "obs [2] and privileged [3] to action [1]" in capsys.readouterr().out


def test_a_native_robots_bundle_asks_for_it_and_does_not_simulate(tmp_path: Path) -> None:
    checkpoint = str(train(config(tmp_path, QUADRUPED)).checkpoint)
    assert export_main(["--checkpoint", checkpoint, "--out", str(tmp_path / "bundle")]) == 0
    about = json.loads((tmp_path / "bundle/metadata.json").read_text())

    assert (about["privileged"]["dim"], about["model"]) == (24, None)
    assert about["robot"] is not None  # what a program on the robot needs is there all the same
    assert [path.name for path in (tmp_path / "bundle").glob("model.*")] == []
    assert "Asks policy.onnx for one action" in (tmp_path / "bundle/run_policy.py").read_text()


def test_predict_takes_the_dict_with_what_only_critics_see(whispered: RunSummary) -> None:
    model = SAC.load(run_of(whispered))
    obs = {"noise": np.zeros((2, 2)), "load": np.full((2, 1, 2), 3.0), "where": np.array([[-0.8], [0.8]])}
    actions, _ = model.predict(obs, deterministic=True)
    policy, _ = load_policy(Path(str(whispered.checkpoint)))
    critic = np.concatenate([obs["noise"], obs["load"].reshape(2, 2), obs["where"]], axis=1).astype(np.float32)

    assert actions[0, 0] < -1.0 < 1.0 < actions[1, 0]
    expected = 2 * policy.act({"obs": critic[:, :2].copy(), "critic": critic})
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    with pytest.raises(EnvError, match="no key 'where'"):
        model.predict({name: obs[name] for name in ("noise", "load")})


def test_predict_takes_the_groups_of_a_native_task(tmp_path: Path) -> None:
    summary = train(config(tmp_path, TOY))
    model, (policy, cfg) = SAC.load(run_of(summary)), load_policy(Path(str(summary.checkpoint)))
    groups = make_env(cfg.env, seed=9, role="eval").reset()

    np.testing.assert_allclose(model.predict(groups, deterministic=True)[0], policy.act(groups), atol=1e-6)


def test_an_env_without_critic_keys_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for env in (dataclasses.replace(WHISPERS, critic_keys=()), EnvConfig(env="unilab/Toy-v0")):
        with pytest.raises(ConfigError, match=r"privileged_encoder=\(16, 4\) would have no effect .*--critic-keys"):
            train(config(tmp_path, env))
    assert not list(tmp_path.iterdir())


def test_another_encoder_cannot_go_on(tmp_path: Path) -> None:
    half = train(config(tmp_path, TOY, total_steps=200))

    saved = saved_config(open_resume(str(run_of(half)), tmp_path))
    with pytest.raises(ConfigError, match="privileged_encoder cannot differ"):
        check_changes(saved, saved, ["privileged_encoder"])

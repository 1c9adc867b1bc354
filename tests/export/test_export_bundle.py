"""The bundle of a finished run, used as a robot would: without unilab and without torch."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from unilab.algos.base import LearnerConfig
from unilab.cli import export_main
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig, make_env
from unilab.errors import UnilabError
from unilab.export import bundle
from unilab.export.deployed import Deployed
from unilab.export.parity import env_units
from unilab.replay import ReplayConfig
from unilab.restore import load_policy
from unilab.spec import EnvSpec
from unilab.train import train

ALONE = """
import runpy, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "unilab"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Nothing())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def trained(log_dir, env, **learner):
    """The last checkpoint of a run of 160 env steps."""
    summary = train(
        TrainConfig(
            total_steps=160,
            threads=1,
            seed=2,
            log_dir=log_dir,
            serial=True,
            env=env,
            learner=LearnerConfig(hidden=(16, 16), **learner),
            replay=ReplayConfig(batch_size=16, buffer_size=400),
            evaluation=EvaluationConfig(eval_episodes=0),
        )
    )
    return summary.checkpoint


@pytest.fixture(scope="module")
def cheetah(tmp_path_factory):
    """A checkpoint whose env begins in the nominal pose, and its bundle."""
    folder = tmp_path_factory.mktemp("export")
    env = EnvConfig(env="HalfCheetah-v5", env_kwargs={"reset_noise_scale": 0.0}, num_envs=2)
    checkpoint = trained(folder / "runs", env, norm_obs=True)
    assert export_main(["--checkpoint", checkpoint, "--out", str(folder / "bundle")]) == 0
    return checkpoint, folder / "bundle"


def run_alone(folder, *words):
    command = [sys.executable, "-c", ALONE, str(folder / "run_policy.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_file_acts_as_the_run_does_one_by_one_and_together(cheetah):
    checkpoint, folder = cheetah
    policy, _ = load_policy(Path(checkpoint))
    obs = np.random.default_rng(0).normal(0, 3, (256, 17)).astype(np.float32)
    loaded = onnxruntime.InferenceSession(folder / "policy.onnx")

    together = loaded.run(["action"], {"obs": obs})[0]
    single = np.concatenate([loaded.run(["action"], {"obs": row[None]})[0] for row in obs])

    assert np.abs(together - policy.act({"obs": obs})).max() <= 1e-5  # the cheetah's actions reach from -1 to 1
    assert np.abs(single - together).max() <= 1e-6


def test_the_example_moves_the_robot_as_the_env_does_without_unilab_or_torch(cheetah):
    checkpoint, folder = cheetah
    policy, cfg = load_policy(Path(checkpoint))
    env = make_env(EnvConfig(env=cfg.env.env, env_kwargs=cfg.env.env_kwargs), seed=0, role="eval")
    obs = env.reset()
    for _ in range(40):  # two seconds
        obs = env.step(policy.act(obs)).obs

    said = run_alone(folder, "2")

    assert said["time_s"] == pytest.approx(2.0)
    assert np.allclose(said["qpos"], env.sim.qpos[0], atol=1e-3)
    assert np.abs(env.sim.qpos[0]).max() > 0.01  # it moved


def test_the_metadata_say_what_a_robot_must_know(cheetah):
    _, folder = cheetah
    about = json.loads((folder / "metadata.json").read_text())
    model = onnx.load(folder / "policy.onnx")

    assert about["control"] == {"rate_hz": 20.0, "frame_skip": 5}
    assert [joint["name"] for joint in about["joints"]][3:5] == ["bthigh", "bshin"]
    assert about["joints"][3]["range"] == [-0.52, 1.05]
    assert [one["joint"] for one in about["actuators"]] == ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
    assert about["nominal_pose"] == {"qpos": [0.0] * 9, "keyframe": None}
    assert (about["observation"]["dim"], about["action"]["low"]) == (17, [-1.0] * 6)
    assert {entry.key: json.loads(entry.value) for entry in model.metadata_props} == {"unilab": about}
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert b"/" not in b"".join(entry.SerializeToString() for entry in model.graph.node)  # no paths of this machine


def test_the_example_is_short(cheetah):
    _, folder = cheetah

    assert len((folder / "run_policy.py").read_text().splitlines()) <= 40


def test_a_policy_that_differs_is_not_written(cheetah, tmp_path, monkeypatch, capsys):
    checkpoint, _ = cheetah
    act = bundle.session
    monkeypatch.setattr(bundle, "session", lambda content: lambda inputs: act(content)(inputs) + np.float32(2e-5))

    assert export_main(["--checkpoint", checkpoint, "--out", str(tmp_path / "bundle")]) == 1
    assert "differs from the run's by 2" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_one_sentence(cheetah, tmp_path, monkeypatch, capsys):
    checkpoint, _ = cheetah
    monkeypatch.setitem(sys.modules, "onnxscript", None)

    assert export_main(["--checkpoint", checkpoint, "--out", str(tmp_path / "bundle")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pip install -e '.[export]'" in said


def test_an_older_bundle_is_replaced_whole_and_nothing_else_is(cheetah, tmp_path, capsys):
    checkpoint, folder = cheetah
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    older, other = tmp_path / "older", tmp_path / "other"
    for place, name in ((older, "metadata.json"), (older, "left.txt"), (other, "thesis.txt")):
        place.mkdir(exist_ok=True)
        (place / name).write_text("{}")

    bundle.write_bundle(older, files)
    assert export_main(["--checkpoint", checkpoint, "--out", str(other)]) == 2

    assert {file.name: file.read_bytes() for file in older.iterdir()} == files
    assert "is there and is no bundle" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["older", "other"]
    assert [file.name for file in other.iterdir()] == ["thesis.txt"]


def test_a_bundle_that_cannot_be_written_leaves_the_older_one(cheetah, tmp_path):
    _, folder = cheetah
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    bundle.write_bundle(tmp_path / "bundle", files)

    with pytest.raises(UnilabError, match="bundle cannot be written"):
        bundle.write_bundle(tmp_path / "bundle", {"metadata.json": b"new", "no/where": b""})

    assert {file.name: file.read_bytes() for file in (tmp_path / "bundle").iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_an_env_without_a_model_gets_an_example_that_asks_once_in_one_zip_file(tmp_path):
    checkpoint = trained(tmp_path / "runs", EnvConfig(env="Pendulum-v1", num_envs=2))

    assert export_main(["--checkpoint", checkpoint, "--out", str(tmp_path / "swing.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "swing.zip") as archive:
        archive.extractall(tmp_path)

    policy, _ = load_policy(Path(checkpoint))
    about = json.loads((tmp_path / "swing/metadata.json").read_text())
    action = policy.act({"obs": np.zeros((1, 3), np.float32)})
    assert about["model"] is about["joints"] is about["nominal_pose"] is None
    assert (about["control"]["rate_hz"], about["action"]["high"]) == (20.0, [2.0])
    assert np.allclose(run_alone(tmp_path / "swing")["action"], 2 * action[0], atol=1e-5)


def test_actions_are_in_the_envs_own_units_up_to_the_very_bounds():
    low, high = (-0.4, -3.0, 100.0), (0.4, 1.0, 300.0)
    env = EnvSpec(env_id="x", obs_dim=3, action_dim=3, action_low=low, action_high=high)
    action = torch.rand((64, 3), generator=torch.Generator().manual_seed(0)) * 2 - 1
    action[:3] = torch.tensor([-1.0, 0.0, 1.0])[:, None]

    got = Deployed(torch.nn.Identity(), env)(action).numpy()

    half = (np.array(high) - np.array(low)) / 2
    assert (np.abs(got - env_units(env)(action.numpy(), 0, 0)) / half).max() < 1e-6
    assert np.array_equal(got[0], np.array(low, np.float32))
    assert np.array_equal(got[2], np.array(high, np.float32))

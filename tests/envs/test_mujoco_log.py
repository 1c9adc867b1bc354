"""MuJoCo's own log lands in the run directory or nowhere, whoever made the env."""

import os

import numpy as np
import pytest

from unilab.envs.mujoco_log import LOG_NAME
from unilab.envs.registry import EnvConfig, make_env, probe


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("here", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "here"
    assert not os.listdir(tmp_path / "here")


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_the_log_of_a_gymnasium_env_goes_to_the_given_folder(here, vec):
    cfg = EnvConfig(env="env_samples:Unstable-v0", num_envs=2, vec=vec)
    run = here.parent / "run"
    env = make_env(cfg, seed=0, log_dir=run)
    env.reset()
    env.step(np.zeros((2, 1), np.float32))
    env.close()

    assert "unstable" in (run / LOG_NAME).read_text()


def test_a_probe_and_an_env_without_a_folder_write_nothing(here, capfd):
    cfg = EnvConfig(env="env_samples:Unstable-v0", num_envs=1)
    probe(cfg)
    env = make_env(cfg, seed=0)
    env.reset()
    env.step(np.zeros((1, 1), np.float32))

    assert "WARNING" not in "".join(capfd.readouterr())


def test_a_folder_with_a_name_that_mujoco_cannot_hold_is_no_harm(here):
    deep = here.parent / "/".join(["x" * 200] * 6)
    env = make_env(EnvConfig(env="env_samples:Unstable-v0"), seed=0, log_dir=deep)
    env.reset()
    env.step(np.zeros((1, 1), np.float32))

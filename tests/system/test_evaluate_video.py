"""``scripts/evaluate.py --video``: the film is the first episode of the evaluation, to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from program import REPOSITORY
from unilab.algos.base import LearnerConfig
from unilab.config import EvaluationConfig, TrainConfig
from unilab.envs.registry import EnvConfig
from unilab.replay import ReplayConfig
from unilab.train import train
from unilab.view.gl import choose_gl


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A policy that cannot balance its pole: episodes end by themselves, after few steps."""
    if trouble := choose_gl(dict(os.environ)):
        pytest.skip(trouble)
    cfg = TrainConfig(
        total_steps=100,
        threads=1,
        log_dir=tmp_path,
        serial=True,
        env=EnvConfig(env="InvertedPendulum-v5", num_envs=2),
        learner=LearnerConfig(hidden=(16, 16)),
        replay=ReplayConfig(batch_size=16, buffer_size=400),
        evaluation=EvaluationConfig(eval_episodes=3),
    )
    train(cfg)
    return (tmp_path / "latest").resolve()


def test_the_film_is_the_first_episode_and_ends_with_it(run: Path) -> None:
    words = [sys.executable, str(REPOSITORY / "scripts/evaluate.py"), "--run", str(run), "--json", "--video"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    (film,) = (run / "videos").iterdir()
    with av.open(str(film)) as container:
        frames = [frame.to_ndarray(format="rgb24").astype(float) for frame in container.decode(video=0)]

    assert len(frames) == json.loads(done.stdout)["lengths"][0] > 3
    assert all(frame.max() > 100 for frame in frames)  # none is black
    # The pole falls, ever faster, and the film does not begin anew.
    moved = [np.abs(frame - frames[0]).mean() for frame in frames]
    assert moved[-1] == max(moved) > 3 * moved[1]

"""Run directories as training leaves them, with numbers that are known."""

import json

from unilab.config import TrainConfig, dump
from unilab.envs.registry import EnvConfig
from unilab.replay import ReplayConfig

CONFIG = TrainConfig(env=EnvConfig(env="Pendulum-v1"), replay=ReplayConfig(learning_starts=100), total_steps=1000)


def make_run(folder, cfg=CONFIG, progress=None, evaluated=()):
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(dump(cfg))
    if progress is not None:
        lines = ["env_steps,time/fps,rollout/ep_rew_mean", *(",".join(map(str, row)) for row in progress)]
        (folder / "progress.csv").write_text("\n".join(lines) + "\n")
    if evaluated:
        keys = ("env_steps", "wall_time_s", "mean_reward")
        lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in evaluated]
        (folder / "eval.jsonl").write_text("\n".join(lines) + "\n")
    return folder

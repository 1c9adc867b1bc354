"""What a model stands at before it has learnt anything."""

from __future__ import annotations

from typing import Any

from unilab.algos.registry import make_learner
from unilab.config import TrainConfig, dump
from unilab.preflight import look_at_env
from unilab.resume import open_weights
from unilab.run_state import networks
from unilab.watchdog import raising_deadline


def untrained_state(cfg: TrainConfig) -> dict[str, Any]:
    """The state that a run of this config begins with: random networks of its seed, or those of ``init_from``.

    Raises:
        EnvError: the env cannot be made here.
        ConfigError: ``init_from`` does not fit.
    """
    spec = look_at_env(cfg, raising_deadline)
    learner = make_learner(cfg.algo, spec, cfg.learner, cfg.algo_config, seed=cfg.seed, device="cpu")
    if cfg.init_from:
        learner.load_weights(open_weights(cfg.init_from, cfg.algo))
    return networks(learner) | {"tick": 0, "env_steps": 0, "wall_time_s": 0.0, "config": dump(cfg)}

"""The episodes: a checkpoint's weights through the run's own evaluation."""

from __future__ import annotations

from collections.abc import Callable

import torch

from unilab.config import EvaluationConfig, threads_of
from unilab.errors import EnvError
from unilab.restore import Restored
from unilab.telemetry.trace import Tracer
from unilab.weights import FlatState, WeightBlock, WeightWriter
from unilab.workers import EvaluationJob, EvaluationResult
from unilab.workers.evaluator import run_evaluation


def play(
    restored: Restored,
    *,
    episodes: int | None,
    seed: int | None,
    stochastic: bool,
    round_done: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Evaluate in this process, with as many threads as an evaluator of the run has: they decide the last bits.

    Args:
        restored: what to evaluate.
        episodes: None: as many as the run's own evaluation plays; where it plays none, as many as by default.
        seed: None: the run's.
        stochastic: act with exploration noise.
        round_done: called after each step of all envs.

    Raises:
        EnvError: the env cannot be made.
        NonFinite: it returned a NaN or an infinity.
    """
    cfg, state = restored.cfg, FlatState(restored.policy.module)
    block = WeightBlock(state.manifest, "evaluated weights")
    try:
        WeightWriter(block, state).publish(restored.version)
        job = EvaluationJob(
            env=cfg.env,
            policy=restored.spec,
            weights=block,
            seed=cfg.seed if seed is None else seed,
            episodes=episodes or cfg.evaluation.eval_episodes or EvaluationConfig().eval_episodes,
            max_episode_steps=cfg.evaluation.eval_max_steps,
            threads=threads_of(cfg).collector,
            on_nan=cfg.on_nan,
            log_dir=None,
            stochastic=stochastic,
        )
        torch.set_num_threads(job.threads)
        return run_evaluation(job, restored.version, round_done, Tracer("evaluator", None))
    except SystemExit as error:
        raise EnvError(f"{cfg.env.env}: it called sys.exit({error.code!r})") from error
    finally:
        block.free()

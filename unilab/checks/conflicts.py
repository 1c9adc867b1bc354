"""Settings that are legal together but probably not what was meant."""

from __future__ import annotations

from unilab.checks.finding import Finding, ok, warn
from unilab.config import TrainConfig
from unilab.spec import EnvSpec


def conflict_findings(cfg: TrainConfig, spec: EnvSpec | None = None) -> list[Finding]:
    """All conflicts, or that there is none.

    Args:
        cfg: a config that ``config.check`` has passed.
        spec: of the env, once it is known.
    """
    return [warn("config", *texts) for texts in _conflicts(cfg, spec)] or [
        ok("config", f"{cfg.algo} on {cfg.env.env}: no two settings contradict each other")
    ]


def _conflicts(cfg: TrainConfig, spec: EnvSpec | None) -> list[tuple[str, str]]:
    prefill, buffer, batch = cfg.schedule().prefill, cfg.replay.buffer_size, cfg.replay.batch_size
    found = []
    if prefill > buffer:
        found.append(
            (
                f"learning_starts={cfg.learning_starts:,} is more than buffer_size={buffer:,}: the first rows are "
                "overwritten before anything is learnt from them",
                f"use --learning-starts {buffer} or a larger --buffer-size",
            )
        )
    if batch > prefill:
        found.append(
            (
                f"batch_size={batch:,} is more than the prefill of {prefill:,} rows: the first batches hold rows twice",
                f"use --learning-starts {batch} or more",
            )
        )
    for name, value in (("save_every", cfg.save_every), ("log_every", cfg.log_every)):
        if value > cfg.total_steps:
            found.append(
                (
                    f"{name}={value:,} is more than total_steps={cfg.total_steps:,}: it comes due only at the end",
                    f"use a smaller --{name.replace('_', '-')}",
                )
            )
    limit = spec.max_episode_steps if spec is not None else None
    cut = cfg.evaluation.eval_max_steps
    if limit is not None and cfg.evaluation.eval_episodes and cut < limit:
        found.append(
            (
                f"eval_max_steps={cut:,} is less than the env's time limit of {limit:,}: evaluation "
                "episodes are cut and their returns not comparable",
                f"use --eval-max-steps {limit}",
            )
        )
    return found

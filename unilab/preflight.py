"""What is settled before a run takes anything: device, memory, and the header that says so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from unilab.budget import ThreadBudget, check_memory, format_bytes
from unilab.config import TrainConfig
from unilab.envs.rollout import EPISODE_COLUMNS
from unilab.errors import ConfigError
from unilab.pacing import Schedule
from unilab.replay import Ring, RowLayout
from unilab.spec import EnvSpec
from unilab.workers.stats import CollectorStats

SLOTS = 2  # staging slots: one is trained on while the other is filled


def pick_device(name: str) -> torch.device:
    """The learner's device.

    Raises:
        ConfigError: unknown, or not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r} is not a device: use auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device={name!r} is not supported: use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices")
    return device


def row_layout(spec: EnvSpec) -> RowLayout:
    """Columns of the env's rows."""
    return RowLayout(spec.obs_dim, spec.action_dim, spec.critic_dim)


def episode_capacity(schedule: Schedule) -> int:
    """Episodes that can end before the learner looks: one a row in the prefill and two chunks."""
    return schedule.prefill + 2 * schedule.chunk_rows


def memory_needs(cfg: TrainConfig, spec: EnvSpec) -> dict[str, int]:
    """Bytes of the large parts of a run."""
    schedule, layout = cfg.schedule(), row_layout(spec)
    slot_rows = schedule.max_updates * cfg.replay.batch_size
    return {
        "ring": Ring.required_bytes(cfg.replay.buffer_size, layout),
        "staging slots": SLOTS * slot_rows * layout.width * 4,
        "statistics": CollectorStats.required_bytes(
            episode_capacity(schedule), len(EPISODE_COLUMNS) + len(spec.metric_names)
        ),
    }


def check_run_memory(cfg: TrainConfig, spec: EnvSpec) -> None:
    """Refuse a run that does not fit into memory; see ``budget.check_memory``."""
    check_memory(memory_needs(cfg, spec), row_bytes=row_layout(spec).width * 4 + 8, buffer_size=cfg.replay.buffer_size)


def header(
    cfg: TrainConfig,
    spec: EnvSpec,
    *,
    run_dir: str,
    device: torch.device,
    threads: ThreadBudget,
    facts: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Names and values that describe a run at its start."""
    schedule, layout = cfg.schedule(), row_layout(spec)
    needs = ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in memory_needs(cfg, spec).items())
    critic = f", critic [{spec.critic_dim}]" if spec.critic_dim else ""
    keys = f" from {', '.join(spec.obs_keys)}" if spec.obs_keys else ""
    return [
        ("run", run_dir),
        ("env", f"{spec.env_id} x {cfg.env.num_envs}, obs [{spec.obs_dim}]{keys}{critic}"),
        ("action", f"[{spec.action_dim}] in {_bounds(spec)}"),
        ("algo", f"{cfg.algo}, " + ", ".join(f"{name} {value}" for name, value in facts.items())),
        (
            "pacing",
            f"{'serial' if cfg.serial else 'lockstep'}: {schedule.total_steps:,} env steps, "
            f"{schedule.prefill:,} of them random; utd {cfg.pacing.utd:g}, "
            f"{schedule.chunk_rows} env steps and up to {schedule.max_updates} updates a tick",
        ),
        (
            "replay",
            f"{cfg.replay.buffer_size:,} rows of {layout.width} floats, batch {cfg.replay.batch_size}",
        ),
        ("memory", needs),
        ("device", f"{device}; threads: learner {threads.learner}, collector {threads.collector}"),
    ]


def _bounds(spec: EnvSpec) -> str:
    """One interval where all dimensions share it, else one each."""
    pairs = dict.fromkeys(zip(spec.action_low, spec.action_high, strict=True))
    text = ", ".join(f"[{np.float32(low):g}, {np.float32(high):g}]" for low, high in list(pairs)[:8])
    return text + (", ..." if len(pairs) > 8 else "")

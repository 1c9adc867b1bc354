"""How a run computes its updates: settled by its config, its machine and, where it goes on, by how it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unilab.algos.compiled import Compute, fast_bf16, no_compiler
from unilab.config import TrainConfig, update_gflop
from unilab.errors import ConfigError

_PAYS_FROM_GFLOP = 11_000.0  # of a run's updates: 8,000 of 2x256 at batch 256, 70 to 90 s of eager torch on one core
_CALLS_GFLOP = 0.8  # an eager update's calls beside its products: 2 to 5 ms, however small the nets are


def pick_compute(cfg: TrainConfig, device: torch.device, before: Mapping[str, Any] | None) -> Compute:
    """Decide once, from the config and from what the machine has, never from what it measures.

    ``compile=auto`` compiles where the whole run's updates are enough work to win back the 20 to 60 s that compiling
    takes the first time. ``precision=auto`` takes bfloat16 products in a compiled update where the processor has
    instructions for them; in an eager one the casts cost more than they save.

    Args:
        cfg: of the run.
        device: of the learner.
        before: ``state_of`` the run that goes on, which keeps to it where the config says auto; None for a new run.

    Raises:
        ConfigError: it shall be compiled and cannot be.
    """
    missing = no_compiler(device)
    if cfg.compile == "on" and missing:
        raise ConfigError(f"compile=on, but {missing}; install one or use compile=off")
    if cfg.compile != "auto":
        compiled = cfg.compile == "on"
    elif before is not None:
        compiled = bool(before["compiled"]) and not missing
    else:
        schedule = cfg.schedule()
        work = (update_gflop(cfg) + _CALLS_GFLOP) * schedule.updates_until(schedule.total_ticks)
        compiled = missing is None and work >= _PAYS_FROM_GFLOP
    if cfg.precision != "auto":
        return Compute(compiled, cfg.precision)
    if before is not None:
        return Compute(compiled, "bf16" if before["precision"] == "bf16" else "fp32")
    return Compute(compiled, "bf16" if compiled and fast_bf16(device) else "fp32")


def state_of(compute: Compute) -> dict[str, Any]:
    """What a checkpoint keeps of it."""
    return {"compiled": compute.compiled, "precision": compute.precision}

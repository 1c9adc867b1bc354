"""The checks that run before each training run: no process, a few milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from unilab.budget import ThreadBudget
from unilab.checks.descriptors import descriptor_finding, descriptors_needed
from unilab.checks.disk import disk_finding
from unilab.checks.finding import Finding
from unilab.checks.memory import memory_finding
from unilab.checks.package import package_finding
from unilab.checks.threads import thread_finding
from unilab.checks.torch_build import torch_finding
from unilab.config import TrainConfig
from unilab.spec import EnvSpec


def machine_findings(cfg: TrainConfig, threads: ThreadBudget, device: torch.device) -> list[Finding]:
    """What can be said before the env is known."""
    return [
        package_finding(),
        torch_finding(cfg.device),
        descriptor_finding(descriptors_needed(cfg, cuda=device.type == "cuda")),
        thread_finding(cfg, threads),
    ]


def size_findings(cfg: TrainConfig, spec: EnvSpec, needs: Mapping[str, int], row_bytes: int) -> list[Finding]:
    """Memory and disk.

    Args:
        cfg: of the run.
        spec: of its env.
        needs: bytes of the run's large parts, by what takes them.
        row_bytes: bytes of one row of the ring.
    """
    return [
        memory_finding(needs, row_bytes=row_bytes, buffer_size=cfg.replay.buffer_size),
        disk_finding(cfg, spec, row_bytes),
    ]

"""The configs that ship with an algorithm: a YAML file each, with sizes where a CPU wants other nets than a GPU.

A size is a part of such a file, ``sizes: {small: ..., paper: ...}``, laid over the rest of it. What it decides are
plain options (widths, the batch), so a run's header and ``config.yaml`` show what came of it, and a run that goes on
keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unilab.config import TrainConfig, overlay, preset_path, read_mapping
from unilab.errors import ConfigError, nearest

AUTO = "auto"


def load_preset(algo: str, preset: str | None, *, size: str = AUTO, device: str = AUTO) -> TrainConfig:
    """The config of ``configs/<algo>.yaml`` or ``<algo>_<preset>.yaml``.

    Args:
        algo: a name in the registry.
        preset: None for the algorithm's own.
        size: one that the file has, or auto: small on a CPU, paper on a GPU; nothing where the file has no sizes.
        device: of the run, as in its config; decides what auto is.

    Raises:
        ConfigError: no such preset or size.
    """
    path = preset_path(algo, preset)
    content = dict(read_mapping(path))
    sizes: Mapping[str, Any] = content.pop("sizes", {})
    cfg = overlay(TrainConfig(algo=algo), content, str(path))
    if size == AUTO and not sizes:
        return cfg
    return _laid_over(cfg, sizes, _picked(device) if size == AUTO else size, path.stem)


def with_size(cfg: TrainConfig, preset: str | None, size: str) -> TrainConfig:
    """A config with a size of its algorithm's preset laid over it; errors as ``load_preset``."""
    path = preset_path(cfg.algo, preset)
    return _laid_over(cfg, read_mapping(path).get("sizes", {}), size, path.stem)


def _laid_over(cfg: TrainConfig, sizes: Mapping[str, Any], size: str, name: str) -> TrainConfig:
    if not sizes:
        raise ConfigError(f"size={size} would have no effect: {name} has no sizes; use --hidden")
    if size not in sizes:
        raise ConfigError(f"size={size!r} is not known{nearest(size, sizes)}; {name} has auto, {', '.join(sizes)}")
    return overlay(cfg, sizes[size], f"{name}: {size}")


def _picked(device: str) -> str:
    cuda = torch.cuda.is_available() if device == AUTO else device.startswith("cuda")
    return "paper" if cuda else "small"

"""SHA-256 over training state, independent of paths, times and dict order."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch


def digest(state: Any) -> str:
    """Hex digest of nested dicts and lists of tensors, numbers and strings.

    Tensors count with dtype, shape and bytes, so two states are equal bit for bit exactly if their digests are.
    """
    sha = sha256()
    _feed(sha, state)
    return sha.hexdigest()


def _feed(sha: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            sha.update(f"{{{key}:".encode())
            _feed(sha, value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            sha.update(b"[")
            _feed(sha, item)
    elif isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().contiguous()
        sha.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    else:
        sha.update(repr(value).encode())


def all_finite(state: Any) -> bool:
    """Whether no floating-point tensor in a state holds a NaN or an infinity."""
    if isinstance(value := state, Mapping):
        return all(all_finite(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(all_finite(item) for item in value)
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return bool(torch.isfinite(value).all())
    return True

"""SHA-256 over training state, independent of paths, times and dict order."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch


def digest(state: Any) -> str:
    """Hex digest of nested dicts and lists of tensors, numbers and strings.

    Tensors count with dtype, shape and bytes: two states are equal bit for bit exactly if their digests are.
    """
    sha = sha256()
    _feed(sha, state)
    return sha.hexdigest()


def _feed(sha: Any, value: Any) -> None:
    # Brackets on both sides and names as literals: no two states spell the same text.
    if isinstance(value, Mapping):
        sha.update(b"{")
        for key in sorted(value, key=repr):
            sha.update(f"{key!r}:".encode())
            _feed(sha, value[key])
            sha.update(b",")
        sha.update(b"}")
    elif isinstance(value, list | tuple):
        sha.update(b"[")
        for item in value:
            _feed(sha, item)
            sha.update(b",")
        sha.update(b"]")
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

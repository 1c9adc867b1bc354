"""Pickling without shared memory.

multiprocessing's pickler is extended by torch: a tensor then goes through a file in /dev/shm, which may be full or
read-only, and its receiver has to fetch it from a sender that still lives.
"""

from __future__ import annotations

import pickle
from typing import Any


def to_bytes(value: Any) -> bytes:
    """The value, tensors included, as bytes that ``Connection.recv`` and ``pickle.loads`` read."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class Plain:
    """A value that travels to a process among its arguments as bytes, and arrives as the value itself."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (to_bytes(self._value),)

"""Named, typed, aligned arrays over one shared block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unilab.errors import BlockFreed
from unilab.shm.segment import BACKING, Backing, Block

ALIGNMENT = 64  # bytes; one cache line: no two arrays share one, and an int64 is never split


@dataclass(frozen=True, slots=True)
class Field:
    """One array of an ``Arrays``."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # numpy name, such as "float32"

    @property
    def nbytes(self) -> int:
        """Bytes of the array itself, without padding."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


class Arrays:
    """Arrays as attributes, in one block that travels to a child process as a ``Process`` argument.

    After ``free`` every array is gone and its name raises ``BlockFreed``, so hold the ``Arrays`` and not
    its arrays.
    """

    def __init__(self, fields: Sequence[Field], label: str, *, backing: Backing = BACKING) -> None:
        self._fields = tuple(fields)
        self._block = Block(required_bytes(fields), label, backing=backing)
        self._map_fields()

    def _map_fields(self) -> None:
        offset = 0
        for field in self._fields:
            setattr(self, field.name, self._block.array(offset, field.shape, field.dtype))
            offset += _padded(field.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return self._block.nbytes

    def free(self) -> None:
        """Drop the arrays and give up the block; safe to call twice."""
        for field in self._fields:
            self.__dict__.pop(field.name, None)
        self._block.free()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]:
            # Reached only when the attribute is missing: freed, or never a field.
            if not name.startswith("_") and any(field.name == name for field in self._fields):
                raise BlockFreed(f"{self._block.label}.{name} was used after it was freed")
            raise AttributeError(name)

    else:

        def __getattr__(self, name: str) -> NDArray[Any]:
            raise AttributeError(name)

    def __getstate__(self) -> dict[str, Any]:
        return {"_fields": self._fields, "_block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map_fields()


def required_bytes(fields: Sequence[Field]) -> int:
    """Bytes of a block that holds these arrays."""
    return sum(_padded(field.nbytes) for field in fields)


def _padded(nbytes: int) -> int:
    return max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT

"""Staging slots and what may happen to them (docs/design.md, contract 4)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import torch

from unilab.replay import Packed


class SlotState(Enum):
    """Where a slot stands; it moves in this order, round and round, and no other way."""

    FREE = "free"
    PACKING = "packing"
    COPYING = "copying"
    READY = "ready"
    IN_USE = "in use"


_NEXT = dict(zip(SlotState, [*list(SlotState)[1:], SlotState.FREE], strict=True))


class Slot:
    """A host slot and the device slot of the same number."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = SlotState.FREE
        self.packed: Packed | None = None

    def advance(self, to: SlotState) -> None:
        """Move to the next state; any other move is a bug of ours."""
        assert _NEXT[self.state] is to, f"slot {self.index} cannot go from {self.state} to {to}"
        self.state = to


class Copier(Protocol):
    """Moves host slots to device slots. One implementation a device; everything else is the same code."""

    def wait_host_free(self, slot: int) -> None:
        """Return once no copy reads the host slot any more: it may be packed."""

    def submit(self, slot: int, rows: int) -> None:
        """Start to copy the first ``rows`` rows; they land after the compute that still reads the device slot."""

    def ready(self, slot: int, rows: int) -> torch.Tensor:
        """Device rows [rows, width]; compute issued from now on sees the copy finished."""

    def consumed(self, slot: int) -> None:
        """All compute that reads the device slot has been issued."""

    def close(self) -> None:
        """Give up what the copier holds; may be called twice."""

"""Means of per-update scalars, kept on their device; the one place where the learner waits to read them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

FOLD_EVERY = 256  # adds of one set of names between two folds: bounds memory, costs two kernels


class Metrics:
    """Averages each name over the adds that carried it, since the last drain."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], list[_Group]] = {}

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Take one update's scalars without waiting for the device.

        They are copied (one stack): a CUDA graph or an optimiser may overwrite them in place afterwards.

        Args:
            scalars: 0-d tensors by name, float, any device; a name stays on one device. Gradient is ignored.
        """
        names = tuple(scalars)
        groups = self._groups.get(names)
        if groups is None:
            groups = self._groups[names] = _by_device(scalars)
        for group in groups:
            group.add(scalars)

    def drain(self) -> dict[str, float]:
        """Mean of each name, NaN and infinities as they are; then starts anew. One sync per device."""
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        groups = [group for group in chain.from_iterable(self._groups.values()) if group.count]
        for group, row in zip(groups, _to_host([group.fold() for group in groups]), strict=True):
            for name, value in zip(group.names, row, strict=True):
                sums[name] = sums.get(name, 0.0) + value
                counts[name] = counts.get(name, 0) + group.count
            group.reset()
        return {name: value / counts[name] for name, value in sums.items()}

    def state_dict(self) -> list[dict[str, Any]]:
        """What has been added since the last drain, as copies on the CPU."""
        groups = chain.from_iterable(self._groups.values())
        return [group.state_dict() for group in groups if group.count]

    def load_state_dict(self, state: list[dict[str, Any]], device: torch.device) -> None:
        """Continue where ``state_dict`` was called: the next drain gives the same bits.

        Args:
            state: from ``state_dict``.
            device: of the learner; all scalars come from there.
        """
        self._groups = {}
        for saved in state:
            group = _Group(list(saved["names"]))
            group.load_state_dict(saved, device)
            self._groups.setdefault(tuple(saved["names"]), []).append(group)


class _Group:
    """Scalars that come together and live on one device."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self._rows: list[Tensor] = []  # [len(names)] each
        self._sum: Tensor | None = None  # [len(names)] float64: float32 stops counting at 2**24

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        self._rows.append(torch.stack([scalars[name] for name in self.names]).detach())
        self.count += 1
        if len(self._rows) == FOLD_EVERY:
            self._sum = self.fold()
            self._rows = []

    def fold(self) -> Tensor:
        """Sum of all rows since the reset, [len(names)] float64, on the device."""
        parts = [] if self._sum is None else [self._sum]
        if self._rows:
            parts.append(torch.stack(self._rows).sum(0, dtype=torch.float64))
        return torch.stack(parts).sum(0)

    def state_dict(self) -> dict[str, Any]:
        # Rows apart from their sum: floating-point sums depend on where they are cut.
        return {
            "names": list(self.names),
            "count": self.count,
            "rows": [row.cpu() for row in self._rows],
            "sum": [] if self._sum is None else [self._sum.cpu()],
        }

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        self.count = state["count"]
        self._rows = [row.to(device) for row in state["rows"]]
        self._sum = state["sum"][0].to(device) if state["sum"] else None


def _by_device(scalars: Mapping[str, Tensor]) -> list[_Group]:
    names: dict[torch.device, list[str]] = {}
    for name, value in scalars.items():
        names.setdefault(value.device, []).append(name)
    return [_Group(found) for found in names.values()]


def _to_host(rows: list[Tensor]) -> list[list[float]]:
    """The rows' numbers, fetched in one copy per device."""
    found: dict[int, list[float]] = {}
    for device in dict.fromkeys(row.device for row in rows):
        index = [i for i, row in enumerate(rows) if row.device == device]
        numbers = iter(torch.cat([rows[i] for i in index]).tolist())
        found.update({i: list(islice(numbers, len(rows[i]))) for i in index})
    return [found[i] for i in range(len(rows))]

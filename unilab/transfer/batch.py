"""The rows of one tick, on the learner's device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab.replay import Packed, RowLayout
from unilab.spec import Minibatch


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one tick; valid until it is released to the pipeline."""

    rows: Tensor  # [updates x batch_size, width] float32
    layout: RowLayout
    packed: Packed
    slot: int
    minibatches: dict[tuple[int, int, int], Minibatch] = field(default_factory=dict)
    """By (slot, start, stop), shared by the batches of a pipeline: a slot never moves, and each slice of a tensor takes
    microseconds, the first ones of a tick tens of them."""
    weights: Tensor | NDArray[np.float32] | None = None
    """[rows] float32, what each row counts in the critics' loss; None: 1 each. They are not in the slot: with a GPU an
    array of the host is copied at ``split``."""

    def __post_init__(self) -> None:
        if self.weights is not None and self.weights.shape != self.rows.shape[:1]:
            raise ValueError(f"weights of shape {tuple(self.weights.shape)} for {len(self.rows)} rows")

    @property
    def tick(self) -> int:
        """The tick that these rows are for."""
        return self.packed.tick

    def split(self, batch_size: int) -> Iterator[Minibatch]:
        """Minibatches of ``batch_size`` rows in order, as views: each update gets rows of its own."""
        weights = None if self.weights is None else torch.as_tensor(self.weights, device=self.rows.device)
        for start in range(0, len(self.rows), batch_size):
            key = (self.slot, start, start + batch_size)
            if key not in self.minibatches:
                self.minibatches[key] = _columns(self.rows[start : start + batch_size], self.layout)
            minibatch = self.minibatches[key]
            yield minibatch if weights is None else replace(minibatch, weights=weights[start : start + batch_size])


def _columns(rows: Tensor, layout: RowLayout) -> Minibatch:
    """Columns of packed rows as views; without a critic group the critics' are those of the actor."""
    column = dict(zip(layout.columns, rows.split_with_sizes(layout.widths, 1), strict=True))
    return Minibatch(
        obs=column["obs"],
        action=column["action"],
        reward=column["reward"][:, 0],
        next_obs=column["next_obs"],
        terminated=column["terminated"][:, 0],
        truncated=column["truncated"][:, 0],
        critic_obs=column.get("critic_obs", column["obs"]),
        next_critic_obs=column.get("next_critic_obs", column["next_obs"]),
        steps=column["steps"][:, 0] if "steps" in column else None,
    )

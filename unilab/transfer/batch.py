"""The rows of one tick, on the learner's device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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

    @property
    def tick(self) -> int:
        """The tick that these rows are for."""
        return self.packed.tick

    def split(self, batch_size: int) -> Iterator[Minibatch]:
        """Minibatches of ``batch_size`` rows in order, as views: each update gets rows of its own."""
        for start in range(0, len(self.rows), batch_size):
            key = (self.slot, start, start + batch_size)
            if key not in self.minibatches:
                self.minibatches[key] = _columns(self.rows[start : start + batch_size], self.layout)
            yield self.minibatches[key]


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

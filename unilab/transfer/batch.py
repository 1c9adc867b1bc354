"""The rows of one tick, on the learner's device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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

    @property
    def tick(self) -> int:
        """The tick that these rows are for."""
        return self.packed.tick

    def split(self, batch_size: int) -> Iterator[Minibatch]:
        """Minibatches of ``batch_size`` rows in order, as views: each update gets rows of its own."""
        for start in range(0, len(self.rows), batch_size):
            yield _minibatch(self.rows[start : start + batch_size], self.layout)


def _minibatch(rows: Tensor, layout: RowLayout) -> Minibatch:
    """Columns of packed rows."""
    column = layout.columns
    obs, next_obs = rows[:, column["obs"]], rows[:, column["next_obs"]]
    privileged = layout.critic_dim > 0
    return Minibatch(
        obs=obs,
        action=rows[:, column["action"]],
        reward=rows[:, column["reward"].start],
        next_obs=next_obs,
        terminated=rows[:, column["terminated"].start] != 0,
        truncated=rows[:, column["truncated"].start] != 0,
        critic_obs=rows[:, column["critic_obs"]] if privileged else obs,
        next_critic_obs=rows[:, column["next_critic_obs"]] if privileged else next_obs,
    )

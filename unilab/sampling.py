"""Who decides which rows a batch has: the collectors' keyed draws, or the learner by priority.

By priority, the learner draws batch t+1 while it prefetches it: after batch t was taken and before chunk t+1 is
granted. So errors of tick t count from draw t+2 on, which is what prefetching costs. In lockstep the rows of chunk t+1
are in the domain already, by their numbers: the batch is gathered only once they are in. Collectors find the cells
beside the host slot, and each gathers those of its own range. Free-running, the domain ends where tick t counted, and
the learner gathers. Rows that the next grants let be overwritten have left the domain before the draw.

Everything is a function of seed, tick and the errors that came back, so lockstep stays the same bits, and a draw that
waits for its batch is saved with the priorities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab.pacing import Pacer, Schedule
from unilab.replay import HostSlots, ReplayConfig, Ring, UniformSampler
from unilab.replay.priorities import Priorities


class Sampling(Protocol):
    """The learner's part in drawing."""

    def draw(self, tick: int) -> None:
        """Decide on the rows of batch ``tick``, as of now; once."""

    def ask(self, tick: int) -> NDArray[np.float32] | None:
        """Let batch ``tick`` be gathered, before its chunk is granted: the weights of its rows, None for 1 each."""

    def learnt(self, tick: int, errors: Sequence[Tensor]) -> None:
        """The updates of a tick are made; ``errors`` has the TD errors of its rows, in order."""

    @property
    def rejected(self) -> int:
        """Errors that came back after their row was gone, over the whole run."""

    def state_dict(self) -> dict[str, Any]:
        """What decides future draws, as copies; empty if nothing does."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was called."""


class KeyedDraws:
    """Uniform: whoever packs draws, by seed and tick."""

    rejected = 0

    def draw(self, tick: int) -> None:
        """Nothing is decided here."""

    def ask(self, tick: int) -> None:
        """All rows count alike."""

    def learnt(self, tick: int, errors: Sequence[Tensor]) -> None:
        """Nobody asks for them."""

    def state_dict(self) -> dict[str, Any]:
        """There is none."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is none."""


@dataclass(frozen=True, slots=True)
class _Draw:
    tick: int
    cells: NDArray[np.int64]
    serials: NDArray[np.int64]
    weights: NDArray[np.float32]


class ByPriority:
    """Proportional prioritised replay.

    Args:
        cfg: alpha and beta.
        schedule: of the run.
        rings: all of them; a row's serial is its number there, counted from the first that was preloaded.
        slots: where the cells of a batch are left for whoever gathers it.
        pacer: knows, free-running, what is counted and what may be overwritten.
        sampler: gives the random numbers of a tick.
        batch_size: rows of an update.
    """

    def __init__(
        self,
        cfg: ReplayConfig,
        schedule: Schedule,
        rings: Sequence[Ring],
        slots: HostSlots,
        pacer: Pacer,
        sampler: UniformSampler,
        batch_size: int,
    ) -> None:
        self._cfg = cfg
        self._schedule = schedule
        self._rings = rings
        self._slots = slots
        self._pacer = pacer
        self._sampler = sampler
        self._batch_size = batch_size
        self._priorities = Priorities(sum(ring.capacity for ring in rings), cfg.per_alpha)
        self._low = [-share.preloaded for share in schedule.shares]  # of each ring: the domain that priorities have
        self._high = list(self._low)
        self._draws: dict[int, _Draw] = {}  # by tick: those whose errors have not come back

    @property
    def rejected(self) -> int:
        """See ``Sampling``."""
        return self._priorities.rejected

    def draw(self, tick: int) -> None:
        """See ``Sampling``."""
        self._move_domain(tick)
        rows = self._rows(tick)
        if rows:
            beta = self._cfg.beta((tick - 1) / self._schedule.total_ticks)
            drawn = self._priorities.draw(self._sampler.uniforms(tick, rows + 1), beta)
        else:
            drawn = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        self._draws[tick] = _Draw(tick, *drawn)

    def ask(self, tick: int) -> NDArray[np.float32]:
        """See ``Sampling``; draws, unless that was done before."""
        if tick not in self._draws:
            self.draw(tick)
        drawn = self._draws[tick]
        self._slots.leave_cells(tick, drawn.cells)
        return drawn.weights

    def learnt(self, tick: int, errors: Sequence[Tensor]) -> None:
        """See ``Sampling``; waits for the device."""
        drawn = self._draws.pop(tick)
        if errors:
            self._priorities.update(drawn.cells, drawn.serials, torch.cat(list(errors)).cpu().numpy())

    def state_dict(self) -> dict[str, Any]:
        """See ``Sampling``; between two ticks, with the draw of the next one."""
        return {
            "priorities": self._priorities.state_dict(),
            "low": np.array(self._low),
            "high": np.array(self._high),
            "draws": {
                str(tick): {"cells": d.cells, "serials": d.serials, "weights": d.weights}
                for tick, d in self._draws.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Sampling``."""
        self._priorities.load_state_dict(state["priorities"])
        self._low, self._high = state["low"].tolist(), state["high"].tolist()
        draws = [_Draw(int(tick), **drawn) for tick, drawn in state["draws"].items()]
        # One of another batch size is drawn anew.
        self._draws = {drawn.tick: drawn for drawn in draws if len(drawn.cells) == self._rows(drawn.tick)}

    def _rows(self, tick: int) -> int:
        return self._schedule.updates(tick) * self._batch_size

    def _move_domain(self, tick: int) -> None:
        schedule, pacer = self._schedule, self._pacer
        free = schedule.ahead is not None
        reach = pacer.reach(tick) if free else ()
        counted = pacer.counted(tick - 1) if free else ()
        for i, (ring, share) in enumerate(zip(self._rings, schedule.shares, strict=True)):
            low, high = (share.oldest(reach[i] - 1), share.watermark(counted[i])) if free else share.domain(tick)
            low = max(low, self._low[i])
            self._priorities.drop(_cells(ring, self._low[i], min(low, self._high[i])))
            fresh = max(low, self._high[i])
            self._priorities.add(_cells(ring, fresh, high), np.arange(fresh, high) + share.preloaded)
            self._low[i], self._high[i] = low, high


def _cells(ring: Ring, start: int, stop: int) -> NDArray[np.int64]:
    """Cells of rows [start, stop) in the rings' common memory."""
    return ring.first_cell + np.arange(start, stop) % ring.capacity

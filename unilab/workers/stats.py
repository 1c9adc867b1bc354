"""What a collector reports: rows in shared memory, tagged with their chunk (docs/design.md, contract 10).

There is no queue, so nothing can fill up and block, and what the learner logs at tick t (all that is tagged with
chunks up to t) does not depend on when anything arrived. The episode table is as large as the rows that can be
appended between two looks of the learner, and an episode takes at least one row: it cannot overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import row_spans
from unilab.shm.arrays import Arrays, Field, required_bytes
from unilab.spec import ReturnStats

SPANS = ("wait_grant", "fetch", "act", "env_step", "append", "pack")
"""Parts of a collector's time, in the order of ``CollectorStats.totals``."""

_CHUNKS = 4  # lockstep has at most two chunks that the learner has not looked at
_TAG = 1  # columns before the episode's own
_SUMS = 2  # reward, skipped env steps: columns before the spans


@dataclass(frozen=True, slots=True)
class Totals:
    """What a collector did since the run began."""

    reward: float  # sum over all rows, env units
    skipped: int  # env steps that were not stored, because of a value that was not finite
    seconds: dict[str, float]  # by ``SPANS``


class CollectorStats:
    """Episodes and times from one collector to the learner.

    Args:
        max_episodes: most episodes that can end before the learner looks again.
        episode_columns: floats per episode, without the chunk tag.
    """

    def __init__(self, max_episodes: int, episode_columns: int) -> None:
        self._shared = Arrays(_fields(max_episodes, episode_columns), "collector stats")
        self._seen = 0
        self._none = np.empty((0, episode_columns))

    @staticmethod
    def required_bytes(max_episodes: int, episode_columns: int) -> int:
        """Shared memory that the statistics take."""
        return required_bytes(_fields(max_episodes, episode_columns))

    def add_episodes(self, chunk: int, episodes: NDArray[np.float64]) -> None:
        """Collector: report finished episodes, [k, episode_columns]."""
        table = self._shared.episodes
        cursor = int(self._shared.cursor[0])
        for episode in episodes:
            row = table[cursor % len(table)]
            row[0] = chunk
            row[_TAG:] = episode
            cursor += 1
        self._shared.cursor[0] = cursor

    def add_round(self, reward: float, skipped: int) -> None:
        """Collector: add the rewards of a round, and the env steps skipped in it, to the sums so far."""
        self._shared.sums[0] += reward
        self._shared.sums[1] += skipped

    def finish_chunk(self, chunk: int, seconds: Mapping[str, float], returns: ReturnStats) -> None:
        """Collector: leave the sums so far under the chunk's number, before the chunk is called finished.

        Args:
            chunk: its number.
            seconds: what went into each of ``SPANS`` since the last chunk.
            returns: of the chunk's env steps.
        """
        previous, totals = self._shared.totals[(chunk - 1) % _CHUNKS], self._shared.totals[chunk % _CHUNKS]
        totals[:_SUMS] = self._shared.sums
        totals[_SUMS:] = previous[_SUMS:] + [seconds.get(name, 0.0) for name in SPANS]
        self._shared.returns[chunk % _CHUNKS] = returns.count, returns.mean, returns.m2, returns.peak

    @property
    def reward_sum(self) -> float:
        """Learner: sum of all rewards so far, to show life during the prefill."""
        return float(self._shared.sums[0])

    @property
    def skipped(self) -> int:
        """Learner: env steps that were not stored so far."""
        return int(self._shared.sums[1])

    def totals(self, chunk: int) -> Totals:
        """Learner: the sums up to the end of a chunk that is one of the newest."""
        reward, skipped, *seconds = self._shared.totals[chunk % _CHUNKS].tolist()
        return Totals(reward, int(skipped), dict(zip(SPANS, seconds, strict=True)))

    def returns(self, chunk: int) -> ReturnStats:
        """Learner: discounted returns of the env steps of a chunk that is one of the newest."""
        count, mean, m2, peak = self._shared.returns[chunk % _CHUNKS].tolist()
        return ReturnStats(int(count), mean, m2, peak)

    def take_episodes(self, chunk: int) -> NDArray[np.float64]:
        """Learner: episodes tagged with chunks up to this one that were not taken before, in order."""
        cursor = int(self._shared.cursor[0])
        if cursor == self._seen:
            return self._none
        table = self._shared.episodes
        fresh = np.concatenate([table[span] for span in row_spans(self._seen, cursor - self._seen, len(table))])
        taken: NDArray[np.float64] = fresh[fresh[:, 0] <= chunk, _TAG:]  # tags never go back
        self._seen += len(taken)
        return taken

    def state_dict(self, chunk: int) -> dict[str, NDArray[np.float64]]:
        """Learner: what was reported up to the end of a chunk, one of the newest, and was not taken yet, as copies."""
        shared, cursor = self._shared, int(self._shared.cursor[0])
        waiting = row_spans(self._seen, cursor - self._seen, len(shared.episodes))
        episodes = np.concatenate([shared.episodes[:0], *(shared.episodes[span] for span in waiting)])
        return {
            "sums": shared.totals[chunk % _CHUNKS, :_SUMS].copy(),
            "totals": shared.totals.copy(),
            "returns": shared.returns.copy(),
            "episodes": episodes[episodes[:, 0] <= chunk],
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Learner, before the collector starts: continue where ``state_dict`` was called."""
        shared, waiting = self._shared, state["episodes"]
        shared.sums[:] = state["sums"]
        shared.totals[:] = state["totals"]
        shared.returns[:] = state.get("returns", 0.0)  # older checkpoints have none
        shared.episodes[: len(waiting)] = waiting
        shared.cursor[0] = len(waiting)

    def rewind(self, chunk: int) -> None:
        """Learner, while nobody writes: forget what was reported after the end of this chunk, one of the newest."""
        shared, table = self._shared, self._shared.episodes
        shared.sums[:] = shared.totals[chunk % _CHUNKS, :_SUMS]
        while shared.cursor[0] > self._seen and table[(shared.cursor[0] - 1) % len(table), 0] > chunk:
            shared.cursor[0] -= 1

    def free(self) -> None:
        """Give up the memory."""
        self._shared.free()

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared, "_seen": self._seen, "_none": self._none}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _fields(max_episodes: int, episode_columns: int) -> list[Field]:
    return [
        Field("cursor", (1,), "int64"),
        Field("sums", (_SUMS,), "float64"),
        Field("totals", (_CHUNKS, _SUMS + len(SPANS)), "float64"),
        Field("returns", (_CHUNKS, 4), "float64"),  # of each chunk alone: count, mean, m2, peak
        Field("episodes", (max_episodes, _TAG + episode_columns), "float64"),
    ]

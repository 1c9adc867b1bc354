"""What a collector reports: rows in shared memory, tagged with their chunk (docs/design.md, contract 10).

There is no queue, so nothing can fill up and block, and what the learner logs at tick t (all that is tagged with
chunks up to t) does not depend on when anything arrived. The episode table is as large as the rows that can be
appended between two looks of the learner, and an episode takes at least one row: it cannot overflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unilab.replay.ring import row_spans
from unilab.shm.arrays import Arrays, Field, required_bytes
from unilab.spec import ReturnStats

SPANS = ("wait_grant", "fetch", "act", "env_step", "append", "pack")
"""Parts of a collector's time, in the order of ``CollectorStats.totals``."""

LOCKSTEP_CHUNKS = 4  # at most two of them has the learner not looked at
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
        chunks: how many of the newest chunks are told apart.
    """

    def __init__(self, max_episodes: int, episode_columns: int, chunks: int = LOCKSTEP_CHUNKS) -> None:
        self._shared = Arrays(_fields(max_episodes, episode_columns, chunks), "collector stats")
        self._chunks = chunks
        self._seen = 0
        self._none = np.empty((0, episode_columns))

    @staticmethod
    def required_bytes(max_episodes: int, episode_columns: int, chunks: int = LOCKSTEP_CHUNKS) -> int:
        """Shared memory that the statistics take."""
        return required_bytes(_fields(max_episodes, episode_columns, chunks))

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

    def drop_chunk(self, chunk: int, rows: int) -> None:
        """Collector: what this chunk brought is thrown away, episodes that ended in it too, and it begins again.

        It may begin again any number of times before the learner looks, so nothing of it may stay in the table.
        """
        shared, table = self._shared, self._shared.episodes
        shared.sums[:] = shared.totals[(chunk - 1) % self._chunks, :_SUMS]
        shared.dropped[0] += rows
        while shared.cursor[0] > 0 and table[(shared.cursor[0] - 1) % len(table), 0] == chunk:
            shared.cursor[0] -= 1

    def finish_chunk(
        self, chunk: int, seconds: Mapping[str, float], returns: ReturnStats, lags: tuple[int, int] = (0, 0)
    ) -> None:
        """Collector: leave the sums so far under the chunk's number, before the chunk is called finished.

        Args:
            chunk: its number.
            seconds: what went into each of ``SPANS`` since the last chunk.
            returns: of the chunk's env steps.
            lags: versions between the learner and the weights that acted, at the chunk's launch and at its end.
        """
        previous = self._shared.totals[(chunk - 1) % self._chunks]
        totals = self._shared.totals[chunk % self._chunks]
        totals[:_SUMS] = self._shared.sums
        totals[_SUMS:] = previous[_SUMS:] + [seconds.get(name, 0.0) for name in SPANS]
        self._shared.returns[chunk % self._chunks] = returns.count, returns.mean, returns.m2, returns.peak
        self._shared.lags[chunk % self._chunks] = lags

    @property
    def reward_sum(self) -> float:
        """Learner: sum of all rewards so far, to show life during the prefill."""
        return float(self._shared.sums[0])

    @property
    def skipped(self) -> int:
        """Learner: env steps that were not stored so far."""
        return int(self._shared.sums[1])

    @property
    def dropped(self) -> int:
        """Learner: env steps that were thrown away because the weights that acted were too old."""
        return int(self._shared.dropped[0])

    def totals(self, chunk: int) -> Totals:
        """Learner: the sums up to the end of a chunk that is one of the newest."""
        reward, skipped, *seconds = self._shared.totals[chunk % self._chunks].tolist()
        return Totals(reward, int(skipped), dict(zip(SPANS, seconds, strict=True)))

    def returns(self, chunk: int) -> ReturnStats:
        """Learner: discounted returns of the env steps of a chunk that is one of the newest."""
        count, mean, m2, peak = self._shared.returns[chunk % self._chunks].tolist()
        return ReturnStats(int(count), mean, m2, peak)

    def lags(self, chunk: int) -> tuple[int, int]:
        """Learner: how old the weights of a chunk were at its launch and at its end; it is one of the newest."""
        launch, arrival = self._shared.lags[chunk % self._chunks].tolist()
        return launch, arrival

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
            "dropped": shared.dropped.copy(),
            "sums": shared.totals[chunk % self._chunks, :_SUMS].copy(),
            "totals": shared.totals.copy(),
            "returns": shared.returns.copy(),
            "lags": shared.lags.copy(),
            "episodes": episodes[episodes[:, 0] <= chunk],
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Learner, before the collector starts: continue where ``state_dict`` was called."""
        shared, waiting = self._shared, state["episodes"]
        shared.sums[:] = state["sums"]
        shared.totals[:] = state["totals"]
        shared.dropped[:] = state.get("dropped", 0)  # older checkpoints have none
        shared.returns[:] = state.get("returns", 0.0)  # older checkpoints have none
        shared.lags[:] = state.get("lags", 0)  # nor these
        shared.episodes[: len(waiting)] = waiting
        shared.cursor[0] = len(waiting)

    def rewind(self, chunk: int) -> None:
        """Learner, while nobody writes: forget what was reported after the end of this chunk, one of the newest."""
        shared, table = self._shared, self._shared.episodes
        shared.sums[:] = shared.totals[chunk % self._chunks, :_SUMS]
        while shared.cursor[0] > self._seen and table[(shared.cursor[0] - 1) % len(table), 0] > chunk:
            shared.cursor[0] -= 1

    def free(self) -> None:
        """Give up the memory."""
        self._shared.free()

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Reports:
    """What all collectors of a run report, to the learner; a chunk is said by each collector's own number of it.

    Args:
        stats: of each collector.
    """

    def __init__(self, stats: Sequence[CollectorStats]) -> None:
        self._stats = stats

    @property
    def reward_sum(self) -> float:
        """Sum of all rewards so far."""
        return sum(stats.reward_sum for stats in self._stats)

    @property
    def skipped(self) -> int:
        """Env steps that were not stored so far."""
        return sum(stats.skipped for stats in self._stats)

    @property
    def dropped(self) -> int:
        """Env steps that were thrown away so far."""
        return sum(stats.dropped for stats in self._stats)

    def totals(self, chunks: Sequence[int]) -> list[Totals]:
        """The sums of each collector, up to the end of its chunk."""
        return [stats.totals(chunk) for stats, chunk in zip(self._stats, chunks, strict=True)]

    def returns(self, after: Sequence[int], upto: Sequence[int]) -> Iterator[ReturnStats]:
        """Discounted returns of the chunks after the first and up to the second, collector by collector."""
        for stats, chunks in zip(self._stats, _between(after, upto), strict=True):
            yield from map(stats.returns, chunks)

    def lags(self, after: Sequence[int], upto: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Of the same chunks: how old the weights were at launch and at the end."""
        for stats, chunks in zip(self._stats, _between(after, upto), strict=True):
            yield from map(stats.lags, chunks)

    def take_episodes(self, chunks: Sequence[int]) -> NDArray[np.float64]:
        """Episodes of chunks up to these that were not taken before, collector by collector."""
        taken = [stats.take_episodes(chunk) for stats, chunk in zip(self._stats, chunks, strict=True)]
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def state_dict(self, chunks: Sequence[int]) -> list[dict[str, NDArray[np.float64]]]:
        """What was reported up to the end of these chunks and was not taken yet, as copies."""
        return [stats.state_dict(chunk) for stats, chunk in zip(self._stats, chunks, strict=True)]

    def load_state_dict(self, state: Sequence[Mapping[str, NDArray[np.float64]]]) -> None:
        """Before the collectors start: continue where ``state_dict`` was called."""
        for stats, saved in zip(self._stats, state, strict=True):
            stats.load_state_dict(saved)


def mean_seconds(totals: Sequence[Totals]) -> dict[str, float]:
    """What a collector did on average, by ``SPANS``."""
    return {name: sum(part.seconds[name] for part in totals) / len(totals) for name in SPANS}


def _between(after: Sequence[int], upto: Sequence[int]) -> list[range]:
    return [range(old + 1, new + 1) for old, new in zip(after, upto, strict=True)]


def _fields(max_episodes: int, episode_columns: int, chunks: int) -> list[Field]:
    return [
        Field("cursor", (1,), "int64"),
        Field("dropped", (1,), "int64"),
        Field("sums", (_SUMS,), "float64"),
        Field("totals", (chunks, _SUMS + len(SPANS)), "float64"),
        Field("returns", (chunks, 4), "float64"),  # of each chunk alone: count, mean, m2, peak
        Field("lags", (chunks, 2), "int64"),  # likewise: at launch, at arrival
        Field("episodes", (max_episodes, _TAG + episode_columns), "float64"),
    ]

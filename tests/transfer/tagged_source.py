"""Batches that say which tick and row they are: row i of tick t holds 100 t + i in every column."""

import threading

import numpy as np

from unilab.replay import Packed, RowLayout

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
BATCH = 4  # rows of an update
MAX_UPDATES = 3


def tags(tick, rows):
    return 100.0 * tick + np.arange(rows)


def rows_of(tick):
    """Rows of a batch; ticks 3, 4, 7, 8, ... have no update and so no rows."""
    return BATCH * (tick % 4 if tick % 4 < MAX_UPDATES else 0)


class TaggedSource:
    """A source that packs when it is asked, and is always ready."""

    def __init__(self, host):
        self._host = host
        self.threads = set()  # names of those that asked

    def ask(self, tick):
        pass

    def fetch(self, tick, waiter):
        self.threads.add(threading.current_thread().name)
        rows = rows_of(tick)
        self._host[tick % len(self._host), :rows] = tags(tick, rows)[:, None]
        return Packed(tick, rows, watermark=1000 + tick, versions=np.full(2, tick))


def fresh_host(slots=2):
    """Host slots, poisoned."""
    return np.full((slots, BATCH * MAX_UPDATES, LAYOUT.width), np.nan, np.float32)


def is_right(batch, tick):
    """Whether all rows of a batch, seen through its minibatches, are those of this tick."""
    seen = [minibatch.obs[:, 0] for minibatch in batch.split(BATCH)]
    rows = np.concatenate([part.numpy() for part in seen]) if seen else np.empty(0)
    return rows.tolist() == tags(tick, rows_of(tick)).tolist()

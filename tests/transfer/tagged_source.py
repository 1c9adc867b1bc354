"""Batches that say which tick and row they are: row i of tick t holds 100 t + i in every column."""

import threading

import numpy as np

from unilab.replay import Packed, RowLayout

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
BATCH = 4  # rows of an update
MAX_UPDATES = 3


def tags(tick, rows):
    return 100.0 * tick + np.arange(rows)


class TaggedSource:
    """A source that is always ready; ticks 3, 7, 11, ... have no update and so no rows."""

    def __init__(self):
        self.threads = set()  # names of those that packed

    def rows(self, tick):
        return BATCH * (tick % 4 if tick % 4 < MAX_UPDATES else 0)

    def wait(self, tick, waiter):
        pass

    def pack(self, tick, out):
        self.threads.add(threading.current_thread().name)
        out[:] = tags(tick, len(out))[:, None]
        return Packed(tick, len(out), watermark=1000 + tick, versions=np.full(2, tick))


def fresh_host(slots=2):
    """Host slots, poisoned."""
    return np.full((slots, BATCH * MAX_UPDATES, LAYOUT.width), np.nan, np.float32)


def is_right(batch, tick):
    """Whether all rows of a batch, seen through its minibatches, are those of this tick."""
    seen = [minibatch.obs[:, 0] for minibatch in batch.split(BATCH)]
    rows = np.concatenate([part.numpy() for part in seen]) if seen else np.empty(0)
    return rows.tolist() == tags(tick, TaggedSource().rows(tick)).tolist()

"""A ring next to a plain copy of every row that it was ever given: the oracle for whatever reads a ring."""

from types import SimpleNamespace

import numpy as np

from unilab.replay import Ring, RowLayout

LAYOUT = RowLayout(obs_dim=2, action_dim=1)
WIDTH = 8


class Tape:
    """Row r holds 8 r + column in each column; its policy version is the number of the append that brought it.

    Args:
        capacity: of the ring.
    """

    def __init__(self, capacity):
        self.ring = Ring(capacity, LAYOUT)
        self.rows = np.empty((0, WIDTH), np.float32)
        self.versions = np.empty(0, np.int64)
        self._appends = 0

    @property
    def stop(self):
        return len(self.rows)

    def append(self, count):
        numbers = np.arange(self.stop, self.stop + count)
        rows = (8.0 * numbers[:, None] + np.arange(WIDTH)).astype(np.float32)
        self._appends += 1
        append_rows(self.ring, rows, self._appends)
        self.rows = np.concatenate([self.rows, rows])
        self.versions = np.concatenate([self.versions, np.full(count, self._appends)])
        return self

    def holds(self, ring, low, stop):
        """Check rows [low, stop) of another ring against the copy."""
        assert (ring.oldest, ring.cursor) == (low, stop)
        assert np.array_equal(np.concatenate([*ring.read(low, stop), np.empty((0, WIDTH))]), self.rows[low:stop])
        assert np.array_equal(ring.versions(low, stop), self.versions[low:stop])


def append_rows(ring, rows, version):
    """Append rows as they are, [n, 8] float32."""
    c = LAYOUT.columns
    step = SimpleNamespace(
        next_obs={"obs": rows[:, c["next_obs"]]},
        reward=rows[:, c["reward"].start],
        terminated=rows[:, c["terminated"].start],
        truncated=rows[:, c["truncated"].start],
    )
    ring.append({"obs": rows[:, c["obs"]]}, rows[:, c["action"]], step, policy_version=version)

"""States and saves for the tests of checkpoints."""

import torch
from tape import Tape

from unilab.checkpoint import Checkpoints, load_checkpoint, load_replay
from unilab.replay import Ring


def state_of(step):
    """Every value says the step."""
    return {
        "learner": {"w": torch.full((1000,), float(step)), "count": torch.tensor(step)},
        "env_steps": step,
    }


def step_in(path):
    """The step that every value of a checkpoint says."""
    state = load_checkpoint(path)
    assert (state["learner"]["w"] == state["env_steps"]).all()
    assert state["learner"]["count"] == state["env_steps"]
    return state["env_steps"]


class Run:
    """A ring, its oracle and its checkpoints, as a run has them; each chunk has ``chunk`` rows.

    Args:
        directory: of the checkpoints.
        capacity: of the ring.
        chunk: rows.
        keep: see ``Checkpoints``.
    """

    def __init__(self, directory, capacity=50, chunk=5, keep=3):
        self.tape = Tape(capacity)
        self.chunk = chunk
        self.store = Checkpoints(directory, keep=keep, rings=[self.tape.ring])

    @property
    def low(self):
        return max(0, self.tape.stop + self.chunk - self.tape.ring.capacity)

    def advance(self, chunks=1):
        """Let the collector run: each chunk overwrites rows only when the store allows it."""
        for _ in range(chunks):
            self.store.allow_overwrite([self.low])
            self.tape.append(self.chunk)
        return self

    def begin(self):
        stop = self.tape.stop
        self.store.begin(stop, state_of(stop), {"tick": stop // self.chunk}, rows=[(self.low, stop)])
        return (self.low, stop)

    def save(self):
        """Save and wait; the checkpoint's path."""
        self.begin()
        return self.store.wait()

    def check(self, path):
        """Load a checkpoint and compare every row with the oracle."""
        stop = step_in(path)
        ring = Ring(self.tape.ring.capacity, self.tape.ring.layout)
        load_replay(path, [ring])
        self.tape.holds(ring, max(0, stop + self.chunk - ring.capacity), stop)
        return stop


def segment_files(path):
    return sorted(path.glob("replay_*.rows"))

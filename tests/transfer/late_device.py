"""A device in a test that does everything late, in the way of CUDA streams and events.

Work that is handed over waits in one of two queues, each carried out in order: copies row by row, and compute
that reads the device slots. An event that a queue has not reached yet holds up whoever waits for it. When the
next piece is carried out is up to a seeded random generator; for long stretches one queue goes first.
It happens in whoever calls, or in a thread.
"""

import random
import threading
from collections import deque

import numpy as np
import torch

DEADLINE_S = 30.0


class Event:
    """Something that a queue will have reached."""

    def __init__(self, *, reached=False):
        self.reached = reached

    def reach(self):
        self.reached = True


class LateDevice:
    """A copier whose copies and compute lag behind.

    Args:
        host: [slots, rows, width] host slots.
        seed: of the schedule.
        in_thread: work is carried out by a thread instead of now and then in the caller.
    """

    def __init__(self, host, *, seed, in_thread=False):
        self._host = host
        self._memory = np.full_like(host, np.nan)
        self._random = random.Random(seed)
        self._queues = {"copy": deque(), "compute": deque()}
        self._first = "copy"  # the queue that goes first at present
        self._ready = [Event(reached=True) for _ in host]
        self._consumed = [Event(reached=True) for _ in host]
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._carry_out, daemon=True) if in_thread else None
        if self._thread:
            self._thread.start()

    # ------------------------------------------------------------ what a copier does

    def wait_host_free(self, slot):
        with self._changed:
            event = self._ready[slot]
            if self._thread:
                assert self._changed.wait_for(lambda: event.reached, DEADLINE_S)
            while not event.reached:
                assert self._one_piece(), "deadlock: nothing on the device can go on"

    def submit(self, slot, rows):
        with self._changed:
            self._hand_over("copy", after=self._before_copy(slot))
            for row in range(rows):
                self._hand_over("copy", lambda row=row: self._copy_row(slot, row))
            self._ready[slot] = Event()
            self._hand_over("copy", self._ready[slot].reach)
        self._now_and_then()

    def ready(self, slot, rows):
        with self._changed:
            self._hand_over("compute", after=self._before_compute(slot))
        self._now_and_then()
        return torch.from_numpy(self._memory[slot])[:rows]

    def consumed(self, slot):
        with self._changed:
            self._consumed[slot] = Event()
            self._hand_over("compute", self._consumed[slot].reach)
        self._now_and_then()

    def close(self):
        """Carry out what is left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join(DEADLINE_S)
            assert not self._thread.is_alive()
        with self._changed:
            while self._one_piece():
                pass

    # ------------------------------------------------------------ what a learner does

    def compute(self, work):
        """Hand over work that reads device slots."""
        with self._changed:
            self._hand_over("compute", work)
        self._now_and_then()

    # ------------------------------------------------------------ what the device does

    def _before_copy(self, slot):
        return self._consumed[slot]

    def _before_compute(self, slot):
        return self._ready[slot]

    def _copy_row(self, slot, row):
        self._memory[slot, row] = self._host[slot, row]

    def _hand_over(self, queue, work=lambda: None, after=None):
        self._queues[queue].append((after, work))
        self._changed.notify_all()

    def _one_piece(self):
        """Carry out the next piece of some queue that is not held up; whether there was one."""
        able = [name for name, q in self._queues.items() if q and (q[0][0] is None or q[0][0].reached)]
        if not able:
            return False
        if self._random.random() < 0.01:
            self._first = self._random.choice(list(self._queues))
        name = self._first if self._first in able else able[0]
        _, work = self._queues[name].popleft()
        work()
        self._changed.notify_all()
        return True

    def _now_and_then(self):
        if self._thread:
            return
        with self._changed:
            for _ in range(self._random.choice([0, 0, 0, 1, 6])):
                self._one_piece()

    def _carry_out(self):
        with self._changed:
            while not self._closing:
                if not self._one_piece():
                    self._changed.wait(DEADLINE_S)
                    continue
                # Let the lock go, so that packer and learner come in between two pieces.
                self._changed.wait(self._random.choice([0, 0, 1e-5]))


class ForgetsTheHostSlot(LateDevice):
    """A host slot may be packed while a copy still reads it."""

    def wait_host_free(self, slot):
        pass


class ForgetsTheReader(LateDevice):
    """A copy does not wait for the compute that still reads the device slot."""

    def _before_copy(self, slot):
        return None


class ForgetsTheCopy(LateDevice):
    """Compute does not wait for the copy."""

    def _before_compute(self, slot):
        return None

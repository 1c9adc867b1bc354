"""One thread at a time, and a seeded choice of which: the same code as in a run, in an order that is chosen.

Threads hand a baton on at every pause and wherever they would sleep. Who sleeps in a ``Waiter`` is woken by
its real bell only, so that a ring that is missing is a deadlock here, found at once.
"""

import random
import threading
from types import SimpleNamespace

DEADLINE_S = 60.0


class DeadlockError(AssertionError):
    """Everybody waits."""


class Baton:
    """Schedules the threads that take part.

    Args:
        seed: of the order. Each thread gets a weight from it, so that some orders starve one of them.
    """

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._entered = threading.Condition(self._lock)
        self._tasks = {}  # thread -> its semaphore, what it waits for, its weight
        self._free = False
        self._burst = 0
        self.errors = []

    def enter(self):
        """Take part from here on; the first to enter holds the baton, others sleep until they get it."""
        task = SimpleNamespace(
            go=threading.Semaphore(0),
            ready=lambda: True,
            weight=self._random.choice([0.02, 0.2, 1.0]),
        )
        with self._lock:
            first = not self._tasks
            self._tasks[threading.current_thread()] = task
            self._entered.notify_all()
        if not first:
            self._sleep(task)

    def start(self, work, on_error):
        """Run ``work`` in a thread that takes part; an error in it goes to ``errors``."""

        def run():
            self.enter()
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
                self.set_free()
                on_error()
            finally:
                self.leave()

        count = len(self._tasks)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.await_tasks(count + 1)
        return thread

    def await_tasks(self, count):
        """Return once so many threads take part."""
        with self._lock:
            assert self._entered.wait_for(lambda: len(self._tasks) >= count, DEADLINE_S)

    def pause(self):
        """Hand the baton to anyone who can go on, oneself included."""
        if self._free:
            return
        if self._burst > 0:
            self._burst -= 1
            return
        self._hand_on(lambda: True)

    def sleep_until(self, ready):
        """Hand the baton on until ``ready()``; it is looked at by others and must have no side effect."""
        if threading.current_thread() not in self._tasks:
            self.enter()
        while not ready():
            if self._free:
                return
            self._hand_on(ready)

    def leave(self):
        """End one's part."""
        with self._lock:
            del self._tasks[threading.current_thread()]
            heir = None if self._free or not self._tasks else self._choose()
        if heir:
            heir.go.release()

    def set_free(self):
        """Let everybody run as usual."""
        with self._lock:
            self._free = True
            for task in self._tasks.values():
                task.go.release()

    def _hand_on(self, ready):
        with self._lock:
            if self._free:
                return
            mine = self._tasks[threading.current_thread()]
            mine.ready = ready
            heir = self._choose()
        if heir is not mine:
            heir.go.release()
            self._sleep(mine)

    def _choose(self):
        able = [task for task in self._tasks.values() if task.ready()]
        if not able:
            self._free = True
            for task in self._tasks.values():
                task.go.release()
            raise DeadlockError("everybody waits and nobody was woken")
        self._burst = self._random.choice([0, 0, 6])
        return self._random.choices(able, [task.weight for task in able])[0]

    def _sleep(self, task):
        assert task.go.acquire(timeout=DEADLINE_S), "the baton never came"


class BatonPoll:
    """Stands in for a waiter's ``poll`` object: sleeps by handing the baton on."""

    def __init__(self, baton, poll):
        self._baton = baton
        self._poll = poll

    def poll(self, timeout_ms):
        self._baton.sleep_until(lambda: bool(self._poll.poll(0)))
        return self._poll.poll(timeout_ms if self._baton._free else 0)


def under(baton, waiter):
    """Make a real ``Waiter`` sleep by handing the baton on."""
    waiter._poll = BatonPoll(baton, waiter._poll)
    idle = waiter.idle
    waiter.idle = lambda: under(baton, idle())
    return waiter

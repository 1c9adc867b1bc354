"""Nothing waits without an exit: data, stop, death, deadline; and nothing busy-polls."""

import os
import signal
import subprocess
import threading

import pytest

from unilab.errors import Stopped, WaitTimeout, WorkerDied
from unilab.shm import Bell, Peer, Waiter

LONG_S = 30.0  # a deadline that only a failing test reaches


@pytest.fixture(params=["eventfd", "pipe"])
def bell(request):
    bell = Bell(use_eventfd=request.param == "eventfd")
    yield bell
    bell.close()


@pytest.fixture
def later():
    """Run something in a thread; joined at the end."""
    threads = []

    def start(work):
        thread = threading.Thread(target=work, daemon=True)
        threads.append(thread)
        thread.start()

    yield start
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()


class Looked:
    """A condition that counts how often it was asked, and tells a thread that it was."""

    def __init__(self, answers=()):
        self.value = False
        self.count = 0
        self.seen = threading.Semaphore(0)
        self._answers = list(answers)

    def __call__(self):
        self.count += 1
        self.seen.release()
        return self._answers.pop(0) if self._answers else self.value


@pytest.fixture
def process():
    """A process that lives until its input is closed."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_condition_that_holds_wins_over_everything_else(bell):
    read, write = os.pipe()
    os.write(write, b"x")
    dead = Peer("collector-0", read)

    Waiter(bell, lambda: True, [dead]).wait(lambda: True, "data", deadline_s=0.0)

    os.close(read)
    os.close(write)


def test_a_ring_before_the_wait_is_not_lost(bell):
    condition = Looked([False, True])
    bell.ring()

    Waiter(bell).wait(condition, "data", LONG_S)

    assert condition.count == 2


def test_a_ring_during_the_wait_wakes_it(bell, later):
    condition = Looked()

    def produce():
        condition.seen.acquire()
        condition.value = True
        bell.ring()

    later(produce)
    Waiter(bell).wait(condition, "data", LONG_S)

    assert condition.value


def test_a_false_condition_sleeps_again_and_is_asked_once_a_ring(bell, later):
    condition = Looked()

    def produce():
        for _ in range(5):
            condition.seen.acquire()
            bell.ring()
        condition.seen.acquire()
        condition.value = True
        bell.ring()

    later(produce)
    Waiter(bell).wait(condition, "data", LONG_S)

    assert condition.count == 7  # once before sleeping, then once a ring: it never spins


def test_the_bell_is_silent_after_the_wait(bell):
    bell.ring()
    Waiter(bell).wait(Looked([False, True]), "data", LONG_S)

    with pytest.raises(WaitTimeout):
        Waiter(bell).wait(condition := Looked(), "more", 0.02)
    assert condition.count <= 2  # a bell that still rings would spin here


def test_stop_ends_the_wait_and_names_it(bell, later):
    stop = threading.Event()
    condition = Looked()

    def ask():
        condition.seen.acquire()
        stop.set()
        bell.ring()

    later(ask)
    with pytest.raises(Stopped, match="stopped while waiting for chunk 3"):
        Waiter(bell, stop.is_set).wait(condition, "chunk 3", LONG_S)


def test_stop_is_never_used_up(bell):
    waiter = Waiter(bell, lambda: True)

    for _ in range(3):
        with pytest.raises(Stopped):
            waiter.wait(lambda: False, "data", LONG_S)


def test_a_signal_handler_that_rings_ends_the_wait(bell):
    came = []

    def on_alarm(*_):
        came.append(1)
        bell.ring()

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(Stopped):
            Waiter(bell, lambda: bool(came)).wait(lambda: False, "data", LONG_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_end_of_a_process_ends_the_wait_and_names_the_process(bell, process, later):
    pidfd = os.pidfd_open(process.pid)
    condition = Looked()

    def end():
        condition.seen.acquire()
        process.stdin.close()

    later(end)
    with pytest.raises(WorkerDied, match="collector-0 has ended"):
        Waiter(bell, peers=[Peer("collector-0", pidfd)]).wait(condition, "data", LONG_S)
    os.close(pidfd)


def test_a_killed_process_ends_the_wait(bell, process):
    pidfd = os.pidfd_open(process.pid)
    process.send_signal(signal.SIGKILL)

    with pytest.raises(WorkerDied, match="collector-0 has ended"):
        Waiter(bell, peers=[Peer("collector-0", pidfd)]).wait(lambda: False, "data", LONG_S)
    os.close(pidfd)


def test_a_dead_peer_is_explained_in_its_own_words(bell, process):
    pidfd = os.pidfd_open(process.pid)
    process.kill()
    peer = Peer("collector-0", pidfd, lambda: ValueError("its own traceback"))

    with pytest.raises(ValueError, match="its own traceback"):
        Waiter(bell, peers=[peer]).wait(lambda: False, "data", LONG_S)
    os.close(pidfd)


def test_data_wins_over_a_death_seen_at_the_same_time(bell, process):
    pidfd = os.pidfd_open(process.pid)
    process.kill()
    process.wait()

    Waiter(bell, peers=[Peer("collector-0", pidfd)]).wait(Looked([False, True]), "data", LONG_S)
    os.close(pidfd)


def test_a_peer_that_explains_its_noise_away_does_not_end_the_wait(bell, later):
    read, write = os.pipe()
    condition, explained = Looked(), threading.Semaphore(0)

    def explain():
        assert os.read(read, 100) == b"hello"  # a message of no consequence
        explained.release()

    def produce():
        for _ in range(2):
            os.write(write, b"hello")
            explained.acquire()
        condition.value = True
        bell.ring()

    later(produce)
    Waiter(bell, peers=[Peer("collector-0", read, explain)]).wait(condition, "data", LONG_S)

    assert condition.count == 4  # before sleeping, after either message, after the ring
    os.close(read)
    os.close(write)


def test_every_peer_is_watched(bell, process):
    read, write = os.pipe()
    pidfd = os.pidfd_open(process.pid)
    process.kill()
    peers = [Peer("collector-0", read), Peer("collector-1", pidfd)]

    with pytest.raises(WorkerDied, match="collector-1 has ended"):
        Waiter(bell, peers=peers).wait(lambda: False, "data", LONG_S)
    for descriptor in (read, write, pidfd):
        os.close(descriptor)


def test_a_deadline_names_what_it_waited_for_and_how_long(bell):
    with pytest.raises(WaitTimeout, match=r"waited 0\.02 s for batch 7"):
        Waiter(bell).wait(lambda: False, "batch 7", deadline_s=0.02)


def test_rings_do_not_put_the_deadline_off(bell):
    def ring_and_refuse():
        bell.ring()
        return False

    with pytest.raises(WaitTimeout):
        Waiter(bell).wait(ring_and_refuse, "data", deadline_s=0.05)


def test_time_in_which_the_waiter_itself_was_stopped_counts_for_no_deadline(bell, monkeypatch):
    clock = iter([0.0, 0.0, 500.0, 500.5, 501.9])  # stopped in its first sleep
    looks = iter([False, False, False, False, True])
    monkeypatch.setattr("unilab.shm.signals.time.monotonic", lambda: next(clock))
    bell.ring()  # no sleep is long

    def look():
        bell.ring()
        return next(looks)

    Waiter(bell).wait(look, "data", deadline_s=5.0)
    assert list(clock) == []


def test_data_that_is_there_wins_over_a_deadline_that_has_passed(bell):
    Waiter(bell).wait(lambda: True, "data", deadline_s=-1.0)


@pytest.mark.parametrize("deadline_s", [1e9, float("inf")])
def test_a_deadline_beyond_all_clocks_still_waits(bell, later, deadline_s):
    condition = Looked()

    def produce():
        condition.seen.acquire()
        condition.value = True
        bell.ring()

    later(produce)
    Waiter(bell).wait(condition, "data", deadline_s)

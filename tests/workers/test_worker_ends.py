"""How a worker's end is told: its own words first, else the signal and a likely cause; helpers go with it."""

import multiprocessing
import os
import signal
import subprocess

import pytest

from unilab.errors import EnvError, WorkerDied
from unilab.shm import Bell, Waiter
from unilab.workers.child import MARKER, Link, describe, kill_family
from unilab.workers.process import Worker, _describe_exit, _environment


class Process:
    """As much of a process as a worker's handle asks for."""

    pid = 4711

    def __init__(self):
        self.exitcode = None
        self.on_look = lambda: None

    def is_alive(self):
        self.on_look()
        return self.exitcode is None


@pytest.fixture
def bell():
    bell = Bell()
    yield bell
    bell.close()


@pytest.fixture
def pair(bell, monkeypatch):
    """A worker's handle and the link of its other side, without a process."""
    ours, theirs = multiprocessing.Pipe()
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: FakeContext(ours, theirs))
    monkeypatch.setattr("unilab.workers.process._open_pidfd", lambda process: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(theirs, "close", lambda: None)
    worker = Worker("collector-0", print, (), threads=1, bell=bell)
    link = Link("collector-0", theirs, bell, os.getpid())
    yield worker, link
    os.close(worker._pidfd)
    os.close(link._parent)
    ours.close()
    multiprocessing.connection.Connection.close(theirs)


class FakeContext:
    def __init__(self, *ends):
        self._ends = ends

    def Pipe(self):  # noqa: N802 - the name of multiprocessing
        return self._ends

    def Process(self, **_):  # noqa: N802
        process = Process()
        process.start = lambda: None
        return process


# ------------------------------------------------------------ messages


def test_a_message_arrives_and_rings(pair, bell):
    worker, link = pair
    link.send("ready", {"obs_dim": 3})

    assert worker.wait_message("ready", Waiter(bell), "collector-0", 30) == {"obs_dim": 3}


def test_a_message_that_is_not_there_is_waited_for_until_the_deadline(pair, bell):
    worker, link = pair
    link.send("other")

    with pytest.raises(WorkerDied, match=r"is stuck in its env: waited 0\.01 s for the handshake"):
        worker.wait_message("ready", Waiter(bell), "the handshake", 0.01)


def test_messages_of_several_kinds_do_not_get_in_each_others_way(pair, bell):
    worker, link = pair
    link.send("ready", 1)
    link.send("result", 2)

    assert worker.wait_message("result", Waiter(bell), "result", 30) == 2
    assert worker.wait_message("ready", Waiter(bell), "ready", 30) == 1


def test_a_message_to_a_parent_that_has_gone_is_lost_quietly(bell):
    ours, theirs = multiprocessing.Pipe()
    link = Link("collector-0", theirs, bell, os.getpid())
    ours.close()

    link.send("ready")
    theirs.close()
    os.close(link._parent)


def test_a_worker_watches_the_process_that_started_it(pair):
    _, link = pair

    assert link.parent().name == "learner"
    assert not os.get_inheritable(link.parent().descriptor)


# ------------------------------------------------------------ failures


def test_a_worker_that_lives_and_does_not_complain_is_fine(pair):
    worker, link = pair
    link.send("ready")

    assert worker.failure() is None


def test_its_own_traceback_is_what_is_raised(pair, bell):
    worker, link = pair
    link.send("failed", "collector-0 failed:\nValueError: no")

    with pytest.raises(WorkerDied, match="collector-0 failed:\nValueError: no"):
        Waiter(bell, peers=worker.peers()[1:]).wait(lambda: False, "chunk 3", 30)


def test_words_that_were_sent_in_the_last_moment_win_over_the_exit_code(pair):
    worker, link = pair

    def die():
        if worker._process.exitcode is None:
            link.send("failed", "last words")
            worker._process.exitcode = 1

    worker._process.on_look = die

    assert str(worker.failure()) == "last words"


def test_without_words_the_exit_code_is_named(pair):
    worker, _ = pair
    worker._process.exitcode = 3

    assert str(worker.failure()) == "collector-0 (pid 4711) ended too early with exit code 3"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended too early with exit code 0"),
        (-9, "was killed by signal 9 (SIGKILL): often the kernel, out of memory; see `dmesg`"),
        (-11, "was killed by signal 11 (SIGSEGV): a crash in native code of the env or a library"),
        (-7, "was killed by signal 7 (SIGBUS): a memory mapping could not be backed, often out of memory"),
        (-6, "was killed by signal 6 (SIGABRT): native code gave up, see its message above"),
        (-15, "was killed by signal 15 (SIGTERM)"),
        (-40, "was killed by signal 40"),  # a real-time signal has no name
    ],
)
def test_a_signal_is_named_with_its_likely_cause(code, text):
    assert _describe_exit(code) == text


def test_an_error_of_our_own_needs_no_traceback():
    error = EnvError("the env has no action space")
    error.add_note("in env 3")

    assert describe("collector-0", error) == "collector-0: the env has no action space\n  in env 3"


def test_any_other_error_comes_with_its_traceback_and_its_notes():
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError as error:
        error.add_note("in env 3")
        text = describe("collector-0", error)

    assert text.startswith("collector-0 failed: ZeroDivisionError: by zero\nTraceback (most recent call last):")
    assert text.endswith("ZeroDivisionError: by zero\nin env 3")
    assert "test_worker_ends.py" in text


# ------------------------------------------------------------ environment and helpers


def test_variables_are_set_for_the_start_and_then_as_before(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("UNILAB_TEST", raising=False)
    with _environment({"OMP_NUM_THREADS": "1", "UNILAB_TEST": "x"}):
        assert (os.environ["OMP_NUM_THREADS"], os.environ["UNILAB_TEST"]) == ("1", "x")

    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "UNILAB_TEST" not in os.environ


def test_variables_are_back_after_a_start_that_failed(monkeypatch):
    monkeypatch.delenv("UNILAB_TEST", raising=False)
    with pytest.raises(OSError, match="no"), _environment({"UNILAB_TEST": "x"}):
        raise OSError("no")

    assert "UNILAB_TEST" not in os.environ


@pytest.fixture
def helper():
    """Start a program that carries a mark and ends with its input."""
    started = []

    def start(mark):
        started.append(
            subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=os.environ | {MARKER: mark}, start_new_session=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_helpers_are_found_by_their_mark_whatever_group_they_are_in(helper):
    ours, others = helper("1.collector-0.aaaa"), helper("1.collector-0.bbbb")

    kill_family(-1, "1.collector-0.aaaa")

    assert ours.wait(30) == -signal.SIGKILL
    others.stdin.close()
    assert others.wait(30) == 0


def test_a_mark_that_begins_like_another_is_another(helper):
    other = helper("1.collector-0.aaaa")

    kill_family(-1, "1.collector-0.aa")

    other.stdin.close()
    assert other.wait(30) == 0

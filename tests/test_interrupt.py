"""The first signal asks, the second ends; only while the block runs."""

import os
import signal
import threading
import time

import pytest

from unilab import interrupt
from unilab.errors import Stopped
from unilab.interrupt import Interrupt
from unilab.shm import Bell, Waiter


class EndedError(Exception):
    """Stands in for the end of the process."""


@pytest.fixture
def events(monkeypatch):
    events = []

    def end(code):
        events.append(("ended", code))
        raise EndedError

    monkeypatch.setattr(interrupt.os, "_exit", end)
    return events


@pytest.fixture
def clock(monkeypatch):
    """Seconds that only the test moves on."""
    clock = [100.0]
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def caught(events):
    return Interrupt(on_first=lambda: events.append("first"), on_second=lambda: events.append("second"))


def test_without_a_signal_nothing_happened(caught, events):
    with caught:
        pass

    assert not caught
    assert (caught.signal, caught.exit_code, events) == (None, 0, [])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_to_stop_and_is_kept_with_its_exit_code(caught, events, number, code):
    with caught:
        signal.raise_signal(number)  # no KeyboardInterrupt: the loop goes on

    assert caught
    assert (caught.signal, caught.exit_code, events) == (number, code, ["first"])


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGINT, signal.SIGTERM, 143),
        (signal.SIGTERM, signal.SIGINT, 130),
    ],
)
def test_the_second_signal_takes_others_along_and_ends_at_once(caught, events, clock, first, second, code):
    with caught:
        signal.raise_signal(first)
        clock[0] += 0.21  # two quick presses
        with pytest.raises(EndedError):
            signal.raise_signal(second)

    assert events == ["first", "second", ("ended", code)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_launcher_forwards_too_counts_once(caught, events, clock, number):
    with caught:
        signal.raise_signal(number)
        clock[0] += 0.19
        signal.raise_signal(number)

    assert (caught.signal, events) == (number, ["first"])


def test_another_signal_is_no_echo_however_soon_it_comes(caught, events, clock):
    with caught:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(EndedError):
            signal.raise_signal(signal.SIGTERM)

    assert events == ["first", "second", ("ended", 143)]


def test_the_handlers_before_are_back_after_the_block(caught):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with caught:
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_handlers_are_back_after_an_error_too(caught):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), caught:
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) == before


def test_a_signal_wakes_a_wait(events):
    bell, asleep = Bell(), threading.Event()

    def send():
        assert asleep.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=send)
    started = time.monotonic()
    with Interrupt(on_first=bell.ring, on_second=lambda: None) as caught:
        killer.start()
        with pytest.raises(Stopped, match="a batch"):
            Waiter(bell, lambda: bool(caught)).wait(lambda: asleep.set(), "a batch")
        killer.join()
    bell.close()

    assert caught.signal is signal.SIGTERM
    assert time.monotonic() - started < 10  # also where it came in the instant before the sleep


def test_outside_of_the_main_thread_the_callers_handlers_stay(caught):
    before, seen = signal.getsignal(signal.SIGINT), []

    def run():
        with caught:
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert seen == [before]
    assert signal.getsignal(signal.SIGINT) == before

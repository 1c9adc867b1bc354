"""A block that takes too long is interrupted, and the program around it goes on."""

import signal
import threading
import time
import traceback

import pytest

from unilab import watchdog
from unilab.errors import EnvError
from unilab.watchdog import raising_deadline

LONG_S = 60.0  # that only a failing test reaches


def hang():
    time.sleep(LONG_S)


def retry():
    """As code does that takes every failure for one that passes."""
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
        except Exception:
            continue


@pytest.mark.parametrize("block", [hang, retry])
def test_what_is_stuck_is_interrupted_and_named_with_where_it_was(block):
    before, began = signal.getsignal(signal.SIGINT), time.monotonic()
    said = r"^it is stuck: making it took more than 0\.2 s \(start_limit_s\)"
    with pytest.raises(EnvError, match=said) as raised, raising_deadline(0.2, "making it"):
        block()

    assert time.monotonic() - began < LONG_S / 2
    frames = traceback.extract_tb(raised.value.__cause__.__traceback__)
    assert block.__name__ in [frame.name for frame in frames]
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_of_the_main_thread_python_code_is_interrupted_too():
    found = []

    def work():
        try:
            with raising_deadline(0.2, "making it"):
                retry()
        except EnvError as error:
            found.append(error)
        time.sleep(0.05)
        found.append("goes on")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(LONG_S / 2)

    assert isinstance(found[0], EnvError)
    assert found[1] == "goes on"


def test_a_block_that_ends_in_time_is_left_alone_for_ever():
    for _ in range(50):
        with raising_deadline(0.005, "making it"):
            pass
    time.sleep(0.05)  # past every limit


def test_ctrl_c_is_still_ctrl_c():
    with pytest.raises(KeyboardInterrupt), raising_deadline(LONG_S, "making it"):
        signal.raise_signal(signal.SIGINT)


def test_native_code_that_cannot_be_interrupted_is_told_with_the_stack(monkeypatch, capsys):
    monkeypatch.setattr(watchdog, "_NATIVE_S", 0.1)

    def deaf():  # as the main thread is while native code runs
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        end = time.monotonic() + LONG_S
        try:
            while "native code" not in (text := capsys.readouterr().err) and time.monotonic() < end:
                time.sleep(0.01)
            said.append(text)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    said = []
    with pytest.raises(EnvError), raising_deadline(0.1, "making it"):
        deaf()

    assert "in deaf" in said[0]
    assert said[0].rstrip().endswith("it is in native code, which Python cannot interrupt: restart the program")

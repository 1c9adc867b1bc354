"""A bell is heard once it was rung, before or during the wait; ringing never blocks; both descriptors."""

import os
import select

import pytest

from unilab.shm import Bell


@pytest.fixture(params=["eventfd", "pipe"])
def bell(request):
    bell = Bell(use_eventfd=request.param == "eventfd")
    yield bell
    bell.close()


def rings(bell):
    return bool(select.select([bell.fileno()], [], [], 0)[0])


def fill(bell):
    """Bring the descriptor to where a further write would block."""
    if bell._read == bell._write:
        os.write(bell._write, (2**64 - 2).to_bytes(8, "little"))
        return
    try:
        while True:
            os.write(bell._write, b"x" * 4096)
    except BlockingIOError:
        pass


def test_a_bell_is_silent_until_it_is_rung(bell):
    assert not rings(bell)
    bell.ring()
    assert rings(bell)


def test_a_ring_is_kept_until_it_is_silenced(bell):
    bell.ring()

    assert rings(bell)
    assert rings(bell)
    bell.silence()
    assert not rings(bell)


def test_two_rings_are_silenced_as_one(bell):
    bell.ring()
    bell.ring()
    bell.silence()

    assert not rings(bell)


def test_a_bell_can_be_rung_again_after_silence(bell):
    for _ in range(3):
        bell.ring()
        assert rings(bell)
        bell.silence()
        assert not rings(bell)


def test_silence_on_a_silent_bell_does_not_block(bell):
    bell.silence()

    assert not rings(bell)


def test_ringing_never_blocks_when_the_descriptor_is_full(bell):
    fill(bell)
    bell.ring()

    assert rings(bell)


def test_silence_takes_back_everything_however_often_it_was_rung(bell):
    for _ in range(10_000):
        bell.ring()
    bell.silence()

    assert not rings(bell)


def test_descriptors_do_not_reach_programs_that_an_env_starts(bell):
    assert not os.get_inheritable(bell._read)
    assert not os.get_inheritable(bell._write)


def test_close_gives_every_descriptor_back_and_may_come_twice():
    before = len(os.listdir("/proc/self/fd"))
    bells = [Bell(use_eventfd=True), Bell(use_eventfd=False)]
    assert len(os.listdir("/proc/self/fd")) == before + 3

    for bell in bells * 2:
        bell.close()

    assert len(os.listdir("/proc/self/fd")) == before

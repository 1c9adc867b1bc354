"""When things are due, as tables."""

import pytest

from unilab.errors import ConfigError
from unilab.telemetry.every import Every, EverySeconds


@pytest.mark.parametrize(
    ("interval", "steps", "due"),
    [
        (100, [50, 99, 100, 150, 199, 200], [False, False, True, False, False, True]),
        (100, [64, 128, 192, 256, 320], [False, True, False, True, True]),
        (100, [350, 350, 399, 400], [True, False, False, True]),  # three crossings at once are one
        (1, [1, 2, 2, 3], [True, True, False, True]),
        (100, [100, 90, 100, 110, 200], [True, False, False, False, True]),  # never twice for one crossing
        (100, [0], [False]),
        (0, [0, 1, 10**12], [False, False, False]),
    ],
)
def test_each_crossing_of_a_multiple_is_due_once(interval, steps, due):
    every = Every(interval)

    assert [every.due(n) for n in steps] == due


def test_a_resumed_run_keeps_the_rhythm_and_repeats_nothing():
    every = Every(1000, start_steps=4500)

    assert [every.due(n) for n in (4500, 4600, 4999, 5000, 5100)] == [False, False, False, True, False]


def test_seconds_are_due_once_per_interval_and_a_late_one_shifts_the_rest():
    now = [100.0]
    every = EverySeconds(10.0, clock=lambda: now[0])
    due = []
    for t in (100.0, 109.9, 110.0, 110.1, 145.0, 150.0, 155.0):
        now[0] = t
        due.append(every.due())

    assert due == [False, False, True, False, True, False, True]


def test_zero_seconds_are_never_due():
    now = [0.0]
    every = EverySeconds(0, clock=lambda: now[0])
    now[0] = 1e12

    assert not every.due()


def test_a_negative_interval_is_refused():
    with pytest.raises(ConfigError, match="interval_steps=-1 is negative; use 0 for never"):
        Every(-1)
    with pytest.raises(ConfigError, match=r"interval_s=-0\.5"):
        EverySeconds(-0.5)

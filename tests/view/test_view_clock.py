from fractions import Fraction

import pytest

from unilab.view.clock import Clock


def shown(clock, steps):
    """Step of each frame."""
    return [step for step in range(steps) for _ in range(clock.frames_at(step))]


def test_by_default_every_env_step_is_a_frame():
    clock = Clock(7, Fraction(20), None)

    assert clock.fps == 20
    assert clock.frames == 7
    assert shown(clock, 7) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("rate", "fps"), [(60, 60), (Fraction(200, 3), Fraction(100, 3)), (125, Fraction(125, 3)), (500, Fraction(500, 9))]
)
def test_fast_control_is_shown_in_every_kth_step_up_to_60_frames_a_second(rate, fps):
    assert Clock(1, Fraction(rate), None).fps == fps


def test_fewer_frames_than_steps_pass_over_steps():
    clock = Clock(10, Fraction(50), Fraction(20))  # a frame every 2.5 steps: at 0, 2.5, 5, 7.5

    assert shown(clock, 10) == [0, 2, 5, 7]
    assert clock.frames == 4


def test_more_frames_than_steps_repeat_the_step():
    clock = Clock(3, Fraction(20), Fraction(50))  # 2.5 frames a step

    assert shown(clock, 3) == [0, 0, 0, 1, 1, 2, 2, 2]
    assert clock.frames == 8


@pytest.mark.parametrize("rate", [Fraction(200, 3), Fraction(20), Fraction(125)])
@pytest.mark.parametrize("fps", [None, Fraction(30), Fraction(24000, 1001)])
def test_an_hour_of_video_lasts_an_hour(rate, fps):
    clock = Clock(int(3600 * rate), rate, fps)

    assert abs(clock.frames / clock.fps - 3600) < 1 / clock.fps


def test_the_frames_of_all_steps_are_those_of_the_video():
    clock = Clock(500, Fraction(200, 3), Fraction(24000, 1001))

    assert sum(clock.frames_at(step) for step in range(500)) == clock.frames

import pytest

from unilab.errors import ConfigError
from unilab.view.size import Size, check_even, parse_size


def test_a_size_is_width_then_height():
    assert parse_size("640x480") == Size(640, 480)
    assert parse_size(" 32X1080 ") == Size(32, 1080)


@pytest.mark.parametrize("text", ["640", "640x", "x480", "640*480", "-640x480", "64.0x48", "640x480x3", ""])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="640x480"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0x480", "640x0", "640x99999"])
def test_a_size_has_limits(text):
    with pytest.raises(ConfigError, match=f"{text} must be 1 to 8192"):
        parse_size(text)


def test_a_video_needs_even_sides_and_the_next_such_size_is_named():
    check_even(Size(640, 480))
    for size, fix in ((Size(641, 480), "642x480"), (Size(640, 479), "640x480"), (Size(1, 1), "2x2")):
        with pytest.raises(ConfigError, match=f"use {fix}"):
            check_even(size)

import sys
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from unilab.draft import draft
from unilab.errors import ConfigError, UnilabError
from unilab.view.size import Size
from unilab.view.still import fit, save_png
from unilab.view.video import open_video, require_encoder

SIZE = Size(64, 48)


def frame(value, size=SIZE):
    return np.full((size.height, size.width, 3), value, np.uint8)


def read_back(path):
    """Frames and their rate."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [picture.to_ndarray(format="rgb24") for picture in container.decode(stream)], stream.average_rate


def test_a_video_holds_every_frame_in_order_at_the_exact_rate(tmp_path):
    with open_video(tmp_path / "out.mp4", Size(64, 48), Fraction(125, 3)) as video:
        for k in range(20):
            video.write(frame(10 * k))

    frames, rate = read_back(tmp_path / "out.mp4")
    assert rate == Fraction(125, 3)
    assert len(frames) == 20
    for k, picture in enumerate(frames):
        assert picture.shape == (48, 64, 3)
        assert abs(picture.mean() - 10 * k) < 3


def test_an_older_video_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "out.mp4"
    path.write_bytes(b"older")

    def break_off():
        with open_video(path, SIZE, Fraction(20)) as video:
            video.write(frame(1))
            assert path.read_bytes() == b"older"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()

    assert path.read_bytes() == b"older"
    assert [file.name for file in tmp_path.iterdir()] == ["out.mp4"]


def test_a_finished_draft_takes_the_place_of_the_older_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("older")

    with draft(path) as aside:
        aside.write_text("newer")
        assert path.read_text() == "older"

    assert path.read_text() == "newer"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path):
    def video():
        with open_video(tmp_path / "none/out.mp4", SIZE, Fraction(20)) as video:
            video.write(frame(1))

    for write in (video, lambda: save_png(tmp_path / "none/out.png", frame(1))):
        with pytest.raises(UnilabError, match=r"none/out\.(png|mp4) cannot be written: No such file or directory"):
            write()


def test_a_png_gives_the_pixels_back(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)

    save_png(tmp_path / "out.png", picture)

    assert np.array_equal(np.asarray(Image.open(tmp_path / "out.png")), picture)


def test_a_picture_of_another_shape_is_fitted_in_with_black_beside_it():
    fitted = fit(frame(200, Size(100, 100)), Size(60, 40))

    assert fitted.shape == (40, 60, 3)
    assert (fitted[:, 10:50] == 200).all()
    assert not fitted[:, :10].any()
    assert not fitted[:, 50:].any()


def test_a_picture_of_the_right_size_is_left_alone():
    picture = frame(7)

    assert fit(picture, Size(64, 48)) is picture


def test_a_missing_encoder_is_one_sentence_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)

    with pytest.raises(ConfigError, match=r"pip install -e '\.\[view\]'") as raised:
        require_encoder()

    assert "\n" not in str(raised.value)

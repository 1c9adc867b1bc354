"""Everything but OpenGL, in this process: envs that draw plain colours."""

import av
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random
from painted_env import blue
from PIL import Image

from unilab.errors import ConfigError, EnvError, Stopped
from unilab.seeding import eval_seed, stream
from unilab.view.options import parse
from unilab.view.show import show


@pytest.fixture(autouse=True)
def no_gl(monkeypatch):
    monkeypatch.setattr("unilab.view.show.choose_gl", lambda: "no OpenGL in this test")


def view(*words, env="painted_env:Painted-v0", stopped=lambda: False):
    show(parse(["--env", env, "--random", *map(str, words)]), stopped)


def picture(path):
    return np.asarray(Image.open(path)).astype(int)


def frames_of(path):
    with av.open(str(path)) as container:
        return np.array([frame.to_ndarray(format="rgb24").mean(axis=(0, 1)) for frame in container.decode(video=0)])


def test_a_video_begins_with_the_reset_and_shows_every_step(tmp_path, capsys):
    view("--video", tmp_path / "out.mp4", "--steps", 10, "--size", "64x48", "--seed", 5)

    frames = frames_of(tmp_path / "out.mp4")
    tag = np_random(eval_seed(5, 0))[0].integers(0, 256)
    actions = np.random.default_rng(stream(5, "warmup", 0)).uniform(-1, 1, 9)
    assert frames.shape == (10, 3)
    assert np.abs(frames[:, 0] - tag).max() < 8
    assert np.abs(frames[:, 1] - 20 * np.arange(10)).max() < 8
    assert np.abs(frames[1:, 2] - [blue(action) for action in actions]).max() < 8
    assert capsys.readouterr().out == (
        f"{tmp_path}/out.mp4: 10 frames of 64x48 at 25 fps, 0.4 s: painted_env:Painted-v0, random actions\n"
    )


def test_seconds_are_the_envs_own_time_at_any_frame_rate(tmp_path):
    view("--video", tmp_path / "out.mp4", "--seconds", "0.4", "--fps", "10", "--size", "64x48")

    frames = frames_of(tmp_path / "out.mp4")  # 10 steps at 25 a second; a frame every 2.5 steps
    assert np.abs(frames[:, 1] - [0, 40, 100, 140]).max() < 8


def test_an_image_shows_the_state_after_the_last_step(tmp_path):
    view("--image", tmp_path / "out.png", "--steps", 7, "--size", "64x48")

    assert (picture(tmp_path / "out.png")[..., 1] == 140).all()


def test_each_robot_of_a_grid_is_an_env_with_a_seed_of_its_own(tmp_path):
    view("--image", tmp_path / "out.png", "--steps", 3, "--envs", 3, "--size", "128x96", "--seed", 5)

    grid = picture(tmp_path / "out.png")
    tags = [np_random(eval_seed(5, i))[0].integers(0, 256) for i in range(3)]
    assert [grid[0, 0, 0], grid[0, 64, 0], grid[48, 0, 0]] == tags
    assert (grid[:48, :, 1] == 60).all()
    assert not grid[48:, 64:].any()


def test_a_robot_moves_alike_alone_and_in_company(tmp_path):
    view("--image", tmp_path / "one.png", "--envs", 1, "--size", "64x48")
    view("--image", tmp_path / "four.png", "--envs", 4, "--size", "128x96")

    one, four = picture(tmp_path / "one.png"), picture(tmp_path / "four.png")
    assert np.array_equal(four[:48, :64], one)
    assert not np.array_equal(four[:48, 64:], one)


def test_one_seed_gives_one_picture_and_another_seed_another(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        view("--video", tmp_path / f"{name}.mp4", "--steps", 5, "--size", "64x48", "--seed", seed)

    a, b, c = (frames_of(tmp_path / f"{name}.mp4") for name in "abc")
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_pictures_of_another_size_are_fitted(tmp_path):
    view("--image", tmp_path / "out.png", "--steps", 1, "--size", "100x48")

    image = picture(tmp_path / "out.png")
    assert image.shape == (48, 100, 3)
    assert (image[:, 18:82, 1] == 20).all()
    assert not image[:, :18].any()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("painted_env:NoRenderMode-v0", r"cannot be rendered: it is not made with render_mode='rgb_array' \(TypeError"),
        ("painted_env:NoPicture-v0", r"cannot be rendered: render\(\) gave list instead of uint8 \[height, width, 3\]"),
        ("unilab/Toy-v0", "cannot be rendered: toy envs have no pictures"),
        ("Ant-v5", "no OpenGL in this test"),
        ("painted_env:Pianted-v0", "unknown env id"),
    ],
)
def test_an_env_that_cannot_be_drawn_is_named_and_nothing_is_written(tmp_path, env, said):
    with pytest.raises(EnvError, match=said) as raised:
        view("--video", tmp_path / "out.mp4", "--image", tmp_path / "out.png", env=env)

    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_camera_without_a_choice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--camera side would have no effect"):
        view("--image", tmp_path / "out.png", "--camera", "side")


def test_what_was_begun_is_gone_after_a_stop(tmp_path):
    answers = iter([False, False, True])

    with pytest.raises(Stopped):
        view("--video", tmp_path / "out.mp4", "--size", "64x48", stopped=lambda: next(answers))

    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there_is_named(tmp_path):
    for words, said in (
        (["--run", "latest"], "there is no run in --log-dir"),
        (["--run", str(tmp_path / "none")], "does not exist"),
        (["--checkpoint", str(tmp_path / "none")], "does not exist"),
    ):
        with pytest.raises(ConfigError, match=said):
            show(parse([*words, "--log-dir", str(tmp_path), "--image", str(tmp_path / "out.png")]))

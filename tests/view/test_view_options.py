from fractions import Fraction
from pathlib import Path

import pytest

from unilab.cli import view_main
from unilab.errors import ConfigError
from unilab.view.options import ViewOptions, parse
from unilab.view.size import Size

RUN = ["--run", "latest"]
ANT = ["--env", "Ant-v5", "--random"]
VIDEO = ["--video", "out.mp4"]
IMAGE = ["--image", "out.png"]


def test_a_run_needs_its_name_and_a_file_only():
    assert parse([*RUN, *VIDEO]) == ViewOptions(run="latest", log_dir=Path("runs"), video=Path("out.mp4"))


def test_every_option_is_read():
    text = (
        "--env a:B-v0 --random --env-kwargs x=1e-3 y=b --backend gymnasium --action-bound 2 --envs 16 --seed 1k "
        "--seconds 2.5 --video v.mp4 --image i.png --size 320x240 --fps 30 --camera track"
    )

    options = parse(text.split())

    assert options == ViewOptions(
        env="a:B-v0",
        env_kwargs={"x": 0.001, "y": "b"},
        backend="gymnasium",
        action_bound=2.0,
        random=True,
        envs=16,
        seed=1000,
        seconds=Fraction(5, 2),
        video=Path("v.mp4"),
        image=Path("i.png"),
        size=Size(320, 240),
        fps=Fraction(30),
        camera="track",
        log_dir=Path("runs"),
    )


def test_underscores_do_as_well_as_dashes_and_values_keep_theirs():
    options = parse(["--env=my_env:A_b-v0", "--random", "--env_kwargs", "a_b=1", "--image=a_b.png"])

    assert (options.env, options.env_kwargs, options.image) == ("my_env:A_b-v0", {"a_b": 1}, Path("a_b.png"))


def test_a_grid_gets_a_larger_picture_unless_its_size_is_given():
    assert parse([*ANT, *IMAGE]).size == Size(640, 480)
    assert parse([*ANT, *IMAGE, "--envs", "2"]).size == Size(1280, 960)
    assert parse([*ANT, *IMAGE, "--envs", "2", "--size", "100x100"]).size == Size(100, 100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to show"),
        (VIDEO, "nothing to show"),
        (ANT, "nothing to write"),
        (["--env", "Ant-v5", *VIDEO], "needs --random"),
        ([*RUN, *ANT, *VIDEO], "no place beside --run"),
        (["--checkpoint", "last", *VIDEO], "--checkpoint last of which run"),
        ([*ANT, *VIDEO, "--stochastic"], "--stochastic would have no effect"),
        ([*RUN, *VIDEO, "--action-bound", "1"], "--action-bound has no place"),
        ([*ANT, *IMAGE, "--fps", "30"], "--fps would have no effect without --video"),
        ([*ANT, *VIDEO, "--steps", "3", "--seconds", "1"], "give one of them"),
        ([*ANT, *VIDEO, "--size", "33x32"], "use 34x32"),
        ([*ANT, "--video", "out.gif"], r"must end in \.mp4"),
        ([*ANT, "--image", "out.jpg"], r"must end in \.png"),
        ([*ANT, "--image", "nowhere/at_all/out.png"], "there is no directory nowhere/at_all"),
        ([*ANT, *IMAGE, "--envs", "0"], "0 must be at least 1"),
        ([*ANT, *IMAGE, "--steps", "many"], "'many' is not a number"),
        ([*ANT, *IMAGE, "--seconds", "-1"], "-1 must be a positive number"),
        ([*ANT, *IMAGE, "--seed", "-1"], "-1 must not be negative"),
        ([*ANT, *IMAGE, "--size", "big"], "640x480"),
        ([*ANT, "--vidoe", "out.mp4"], "unknown option --vidoe; did you mean '--video'?"),
        ([*ANT, "--image"], "expected one argument"),
        ([*ANT, *IMAGE, "--env-kwargs", "broken"], "--env-kwargs: expected JSON or KEY=VALUE"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(words, said):
    with pytest.raises(ConfigError, match=said) as raised:
        parse(words)

    assert "\n" not in str(raised.value)


def test_a_directory_is_no_file_to_write(tmp_path):
    (tmp_path / "out.png").mkdir()

    with pytest.raises(ConfigError, match="is a directory"):
        parse([*ANT, "--image", str(tmp_path / "out.png")])


def test_a_refusal_is_printed_with_exit_code_2(capsys):
    assert view_main([*ANT]) == 2
    assert capsys.readouterr().err == "unilab: nothing to write: give --video FILE.mp4, --image FILE.png or both\n"

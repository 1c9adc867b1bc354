from pathlib import Path

import pytest

from unilab.errors import ConfigError
from unilab.evaluate.options import VIDEO_OF_RUN, EvaluateOptions, parse


def test_every_option_is_read():
    words = "--run r --checkpoint best --episodes 1k --seed 3 --stochastic --video v.mp4 --json --log_dir l"

    assert parse(words.split()) == EvaluateOptions(
        run="r",
        checkpoint="best",
        episodes=1000,
        seed=3,
        stochastic=True,
        video=Path("v.mp4"),
        json=True,
        log_dir=Path("l"),
    )


def test_a_video_without_a_name_goes_to_the_run():
    assert parse(["--run", "latest", "--video"]).video == VIDEO_OF_RUN


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to evaluate"),
        (["--checkpoint", "best"], "--checkpoint best of which run"),
        (["--run", "latest", "--episodes", "0"], "0 must be at least 1"),
        (["--run", "latest", "--episode", "3"], "unknown option --episode; did you mean '--episodes'"),
        (["--run", "latest", "--video", "v.gif"], r"must end in \.mp4"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(words, said):
    with pytest.raises(ConfigError, match=said) as raised:
        parse(words)

    assert "\n" not in str(raised.value)

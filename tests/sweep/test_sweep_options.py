from pathlib import Path

import pytest

from unilab.cli import parse
from unilab.errors import ConfigError
from unilab.sweep.options import take_options

SMALL = ["--env", "unilab/Toy-v0", "--total-steps", "200"]


def test_a_number_of_seeds_counts_from_the_first():
    assert take_options(["--seeds", "3", *SMALL], parse).seeds == (0, 1, 2)
    assert take_options(["--seeds=2", "--seed", "10", *SMALL], parse).seeds == (10, 11)
    assert take_options(["--seeds", "7,3,11", *SMALL], parse).seeds == (7, 3, 11)


def test_training_gets_all_options_but_seed_and_name():
    options = take_options(["--algo", "td3", "--seed=4", "--name", "x", "--seeds", "2", *SMALL], parse)

    assert options.words == ("--algo", "td3", *SMALL)
    assert (options.name, options.run_name(5)) == ("x", "x_s5")
    assert options.folder == Path("runs/unilab-Toy-v0/td3")
    assert options.config(5) == parse(["--algo", "td3", "--seed", "5", "--name", "x_s5", *SMALL])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--seeds is missing"),
        (["--seeds"], "--seeds is missing"),
        (["--seeds", "0"], "0 must be at least 1"),
        (["--seeds", "many"], "'many' is not a number"),
        (["--seeds", "1,1"], "must be different numbers"),
        (["--seeds", "2", "--resume", "latest"], "--resume has no place in a sweep"),
        (["--seeds", "2", "--eval-episodes", "0"], "leaves nothing to sum up"),
        (["--seeds", "2", "--total-step", "9"], "unknown option --total-step; did you mean '--total-steps'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(words, said):
    with pytest.raises(ConfigError, match=said) as raised:
        take_options(words, parse)

    assert "\n" not in str(raised.value)

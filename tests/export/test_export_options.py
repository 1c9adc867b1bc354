from pathlib import Path

import pytest

from unilab.errors import ConfigError
from unilab.export.options import ExportOptions, parse


def test_every_option_is_read():
    words = "--run r --checkpoint 5k --log-dir l --out a.zip"

    assert parse(words.split()) == ExportOptions(run="r", checkpoint="5k", log_dir=Path("l"), out=Path("a.zip"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "x"], "nothing to export"),
        (["--run", "latest"], "nowhere to write"),
        (["--checkpoint", "last", "--out", "x"], "--checkpoint last of which run"),
        (["--run", "latest", "--ouput", "x"], "unknown option --ouput; did you mean '--out'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(words, said):
    with pytest.raises(ConfigError, match=said) as raised:
        parse(words)

    assert "\n" not in str(raised.value)

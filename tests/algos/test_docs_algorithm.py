"""What docs/adding_an_algorithm.md shows is in the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding_an_algorithm.md").read_text()
SHOWN = re.findall(r"```(python|diff|yaml)\n(.*?)```", PAGE, re.DOTALL)


def squeezed(text):
    """Lines without their indentation, docstrings of one line and blank lines left out."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith('"""') and line != "..."]


@pytest.mark.parametrize(("kind", "text"), SHOWN)
def test_every_line_shown_is_a_line_of_the_files_it_speaks_of(kind, text):
    files = re.findall(r"^--- a/(.*)$", text, re.MULTILINE) if kind == "diff" else None
    where = files or {"python": ["unilab/algos/crossq.py", "tests/algos/test_crossq_update.py"]}.get(
        kind, ["configs/crossq.yaml"]
    )
    known = {line for name in where for line in squeezed((ROOT / name).read_text())}
    lines = [line.removeprefix("+").strip() for line in squeezed(text) if not line.startswith("---")]

    assert lines
    assert [line for line in lines if line not in known] == []


def test_every_file_that_it_names_is_there():
    named = {*re.findall(r"`((?:unilab|tests|configs|benchmarks|scripts)/[\w/.]+)", PAGE)}
    named |= {name.removeprefix("../") for name in re.findall(r"\]\((.*?)\)", PAGE)}

    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []

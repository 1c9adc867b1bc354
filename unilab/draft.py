"""A file that is there only when it is whole: an older one of the same name stays until then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unilab.errors import UnilabError, machine_trouble


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it gets its name when the block ends, and is removed if that fails.

    Raises:
        UnilabError: it cannot get its name.
    """
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield aside
        with writing(path):
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make an ``OSError`` of the block a ``UnilabError`` about the file that is being written."""
    try:
        yield
    except OSError as error:
        raise UnilabError(f"{path} cannot be written: {machine_trouble(error) or error.strerror or error}") from error

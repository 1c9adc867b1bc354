"""Whether an open file is still there for others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def check_linked(file: IO[str] | IO[bytes], path: Path) -> None:
    """Refuse a file that was removed: it takes all that is written, and nobody can read it.

    Raises:
        FileNotFoundError: its name is gone.
    """
    if not os.fstat(file.fileno()).st_nlink:
        raise FileNotFoundError(f"{path.name} was removed")

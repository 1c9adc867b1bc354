"""Sizes of pictures, as ``640x480``."""

from __future__ import annotations

import re
from typing import NamedTuple

from unilab.errors import ConfigError

_LARGEST = 8192


class Size(NamedTuple):
    """Pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


def parse_size(text: str) -> Size:
    """``640x480`` as a size.

    Raises:
        ConfigError: it is none.
    """
    match = re.fullmatch(r"(\d+)[xX](\d+)", text.strip())
    if match is None:
        raise ConfigError(f"--size {text} is not a size; write width x height in pixels, as in 640x480")
    size = Size(int(match[1]), int(match[2]))
    if not 1 <= min(size) <= max(size) <= _LARGEST:
        raise ConfigError(f"--size {text} must be 1 to {_LARGEST} pixels on each side")
    return size


def check_even(size: Size) -> None:
    """Refuse what H.264 cannot store.

    Raises:
        ConfigError: names the next size that it can.
    """
    even = Size(size.width + size.width % 2, size.height + size.height % 2)
    if even != size:
        raise ConfigError(f"--size {size} cannot be a video: H.264 needs even sides; use {even}")

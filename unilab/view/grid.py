"""Many robots in one picture: a grid of equal tiles, row by row, black where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unilab.errors import ConfigError
from unilab.view.size import Size

Image = NDArray[np.uint8]
"""[height, width, 3], red green blue."""

_SMALLEST = 16


class Grid:
    """Where the picture of each robot goes.

    Args:
        count: robots.
        size: of the whole picture.

    Raises:
        ConfigError: the tiles would be too small to see anything.
    """

    def __init__(self, count: int, size: Size) -> None:
        self.columns = math.isqrt(count - 1) + 1
        self.rows = -(-count // self.columns)
        self.size = size
        self.tile = Size(size.width // self.columns, size.height // self.rows)
        if min(self.tile) < _SMALLEST:
            raise ConfigError(
                f"--size {size} leaves {self.tile} pixels for each of {count} robots; use at least "
                f"{Size(self.columns * _SMALLEST, self.rows * _SMALLEST)}"
            )

    def picture(self, tiles: Sequence[Image]) -> Image:
        """The whole picture; the pixels that the division leaves over are black, on the right and below."""
        picture = np.zeros((self.size.height, self.size.width, 3), np.uint8)
        width, height = self.tile
        for i, tile in enumerate(tiles):
            row, column = divmod(i, self.columns)
            picture[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile
        return picture

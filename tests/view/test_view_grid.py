import numpy as np
import pytest

from unilab.errors import ConfigError
from unilab.view.grid import Grid
from unilab.view.size import Size


def tiles(grid, count):
    """Tile i holds i + 1 everywhere."""
    return [np.full((grid.tile.height, grid.tile.width, 3), i + 1, np.uint8) for i in range(count)]


@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (5, 3, 2), (9, 3, 3), (16, 4, 4), (17, 5, 4)],
)
def test_the_grid_is_the_squarest_with_the_spare_tiles_in_the_last_row(count, columns, rows):
    grid = Grid(count, Size(640, 480))

    assert (grid.columns, grid.rows) == (columns, rows)
    assert columns * rows - count < columns


def test_tiles_lie_row_by_row_and_spare_ones_are_black():
    grid = Grid(3, Size(64, 40))

    picture = grid.picture(tiles(grid, 3))

    assert grid.tile == Size(32, 20)
    assert (picture[:20, :32] == 1).all()
    assert (picture[:20, 32:] == 2).all()
    assert (picture[20:, :32] == 3).all()
    assert (picture[20:, 32:] == 0).all()


def test_the_picture_has_the_size_asked_for_whatever_the_division_leaves_over():
    grid = Grid(9, Size(100, 62))

    picture = grid.picture(tiles(grid, 9))

    assert grid.tile == Size(33, 20)
    assert picture.shape == (62, 100, 3)
    assert (picture[40:60, 66:99] == 9).all()
    assert not picture[60:].any()
    assert not picture[:, 99:].any()


def test_tiles_too_small_to_see_are_refused_with_a_size_that_works():
    with pytest.raises(ConfigError, match=r"leaves 15x15 pixels for each of 16 robots; use at least 64x64"):
        Grid(16, Size(60, 60))

    assert Grid(16, Size(64, 64)).tile == Size(16, 16)

"""PNG files, and pictures of another size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps

from unilab.draft import draft, writing
from unilab.view.grid import Image
from unilab.view.size import Size


def save_png(path: Path, picture: Image) -> None:
    """Write a picture.

    Raises:
        UnilabError: it cannot be written.
    """
    with draft(path) as aside, writing(path):
        Pillow.fromarray(picture).save(aside, format="PNG", optimize=True)


def fit(picture: Image, size: Size) -> Image:
    """The picture as large as it can be in this size, with its own proportions, black beside it."""
    if picture.shape[:2] == (size.height, size.width):
        return picture
    return np.asarray(ImageOps.pad(Pillow.fromarray(picture), size, Pillow.Resampling.LANCZOS))

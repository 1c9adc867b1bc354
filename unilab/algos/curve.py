"""How a value falls over a run: the learning rate over its updates, exploration noise over its env steps."""

from __future__ import annotations

import math
from typing import Literal

from unilab.errors import ConfigError

Shape = Literal["constant", "linear", "cosine"]


def share_left(shape: Shape, final: float, progress: float) -> float:
    """The share of the first value that is left when the share ``progress`` of a run is done; held once all is.

    Args:
        shape: of the way from 1 to ``final``.
        final: share at the end, within [0, 1]; not read where nothing falls.
        progress: within [0, 1]; values beyond are taken as the nearer end.

    Source of the cosine: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
    """
    if shape == "constant":
        return 1.0
    done = min(max(progress, 0.0), 1.0)
    left = 1.0 - done if shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return final + (1.0 - final) * left


def check_noise_curve(algo: str, shape: Shape, final: float, largest: float) -> None:
    """Refuse ``noise_schedule`` and ``noise_final`` that cannot work or would have no effect.

    Args:
        algo: whose section they are in, for errors.
        shape: ``noise_schedule``.
        final: ``noise_final``.
        largest: standard deviation that the noise begins with.

    Raises:
        ConfigError: names the field, its value and the reason.
    """
    if not 0.0 <= final < 1.0:
        raise ConfigError(f"{algo}.noise_final={final!r} cannot work; it must be 0 or more and below 1")
    if shape == "constant" and final != 0.0:
        raise ConfigError(f"{algo}.noise_final={final!r} would have no effect with {algo}.noise_schedule=constant")
    if shape != "constant" and largest == 0.0:
        raise ConfigError(f"{algo}.noise_schedule={shape!r} would have no effect without exploration noise")


def noise_words(shape: Shape, final: float) -> str:
    """What the run's header adds to the exploration noise."""
    return "" if shape == "constant" else f", down to {final:g} of it ({shape})"

"""How an observation is put together from fields of ``MjData``, in words that a program without unilab can follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Part:
    """Some columns of the observation: ``clip(function(field[start:stop] - field[minus:...]))``."""

    field: str
    """Of ``MjData``, flattened, after ``mj_step`` and ``mj_rnePostConstraint``."""
    start: int = 0
    stop: int | None = None
    minus: int | None = None
    """Where as many numbers begin that are subtracted; None: nothing is."""
    function: Literal["sin", "cos"] | None = None
    clip: tuple[float, float] | None = None

"""States of numpy generators as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

_HALF = (1 << 64) - 1


def pack_generators(rngs: Sequence[Generator]) -> NDArray[np.int64]:
    """[n, 6] the whole state of PCG64 generators: two 128-bit numbers in halves, and a half-used draw.

    int64 with the bits of uint64, which not every format that saves arrays knows.
    """
    rows = []
    for rng in rngs:
        state = rng.bit_generator.state
        numbers = state["state"]["state"], state["state"]["inc"]
        rows.append([half for number in numbers for half in (number >> 64, number & _HALF)])
        rows[-1] += [state["has_uint32"], state["uinteger"]]
    return np.array(rows, np.uint64).reshape(-1, 6).view(np.int64)


def unpack_generators(rows: NDArray[np.int64], rngs: Sequence[Generator]) -> None:
    """Write states from ``pack_generators`` into as many generators."""
    for row, rng in zip(rows.view(np.uint64), rngs, strict=True):
        high, low, inc_high, inc_low, has_uint32, uinteger = (int(part) for part in row)
        rng.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }

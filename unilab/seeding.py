"""One run seed, many independent streams.

A stream is a ``SeedSequence`` with a spawn key of (role, index), so neighbouring run seeds share nothing
(``seed + i`` would make env 1 of run 7 equal env 0 of run 8).

An env's own ``reset(seed=...)`` takes one integer, and many simulators keep only 31 bits of it. Those
integers come from a permutation of 31-bit numbers over (run seed, role, index): they look random, and no two
envs of two runs share one whose seeds lie less than 131,072 apart (with up to 12,288 training envs each).
"""

from __future__ import annotations

import numpy as np
from numpy.random import SeedSequence

ROLES = {"network": 0, "learner": 1, "sample": 2, "explore": 3, "warmup": 4, "eval": 5}

_BITS = 31
_MASK = (1 << _BITS) - 1
_INDEX_BITS = 14
EVAL_INDEX = 3 << (_INDEX_BITS - 2)  # the last quarter of a run's indices belongs to evaluation


def stream(seed: int, role: str, index: int = 0) -> SeedSequence:
    """Seed sequence of ``role`` number ``index`` in the run with this seed."""
    return SeedSequence(seed, spawn_key=(ROLES[role], index))


def torch_seed(sequence: SeedSequence) -> int:
    """63-bit seed for ``torch.Generator.manual_seed``."""
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def env_seed(seed: int, index: int) -> int:
    """31-bit seed for the first reset of env ``index``, counted over all collectors of the run."""
    return _permute((seed << _INDEX_BITS) + index)


def eval_seed(seed: int, index: int) -> int:
    """31-bit seed for evaluation env ``index``; never one of the run's training seeds (below 12,288 envs)."""
    return env_seed(seed, EVAL_INDEX + index)


def _permute(x: int) -> int:
    """A fixed bijection on 31-bit numbers: odd multipliers and xor-shifts can all be undone."""
    x &= _MASK
    x = (x * 0x2C1B3C6D) & _MASK
    x ^= x >> 16
    x = (x * 0x297A2D39) & _MASK
    x ^= x >> 15
    return x

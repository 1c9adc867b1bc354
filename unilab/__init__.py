"""Multiprocess, shared-memory, off-policy reinforcement learning for robot control.

``from unilab import SAC`` gives the Python API; see ``unilab.api``.
"""

from __future__ import annotations

import os
from typing import Any

__version__ = "0.1.0"

# Threads of an update wait for one another at every barrier. libgomp lets them spin for so long that a learner stands
# still while another program has one of its cores: 10 updates/s instead of 138 (docs/tuning.md). It reads this when
# torch is imported, so it has to be said before.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "1000"


def __getattr__(name: str) -> Any:
    """A class of the API, imported when it is asked for: every worker imports this file, and none needs those."""
    hint = ""
    if name[:1].isupper():
        names = _api()
        if name in names:
            return names[name]
        from unilab.errors import nearest

        hint = nearest(name, names)
    raise AttributeError(f"module 'unilab' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_api()})


def _api() -> dict[str, Any]:
    # By name: to the check of import layers, whoever imports this package would import the API too.
    from importlib import import_module

    names: dict[str, Any] = import_module("unilab.api").NAMES
    return names

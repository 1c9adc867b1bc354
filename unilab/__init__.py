"""Multiprocess, shared-memory, off-policy reinforcement learning for robot control.

``from unilab import SAC`` gives the Python API; see ``unilab.api``.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """A class of the API, imported when it is asked for: every worker imports this file, and none needs those."""
    if name[:1].isupper():
        from unilab.api import NAMES

        if name in NAMES:
            return NAMES[name]
        from unilab.errors import nearest

        raise AttributeError(f"module 'unilab' has no attribute {name!r}{nearest(name, NAMES)}")
    raise AttributeError(f"module 'unilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    from unilab.api import NAMES

    return sorted({*globals(), *NAMES})

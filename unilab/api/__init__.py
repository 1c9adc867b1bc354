"""The Python API: one class an algorithm, with the names that users of Stable-Baselines3 know."""

from __future__ import annotations

from typing import Any

from unilab.algos.registry import ALGORITHMS
from unilab.api.evaluation import Evaluation
from unilab.api.model import Model
from unilab.api.watching import TickInfo
from unilab.errors import UnilabError


def _model(algo: str, name: str) -> type[Model]:
    doc = f"{name}; see ``unilab.api.model.Model``."
    return type(name, (Model,), {"algo": algo, "__doc__": doc, "__module__": __name__})


NAMES: dict[str, Any] = {entry.rule.__name__: _model(key, entry.rule.__name__) for key, entry in ALGORITHMS.items()}
"""What ``from unilab import ...`` finds here: a class for each algorithm, and what goes with them."""

NAMES |= {thing.__name__: thing for thing in (Evaluation, Model, TickInfo, UnilabError)}

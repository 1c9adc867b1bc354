"""Runs of one command are one curve: which runs those are, and what tells the curves apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unilab.config import TrainConfig, as_plain
from unilab.plot.curve import Curve, Run
from unilab.resume import FREE, dotted

_NOT_TOLD_APART = (FREE - {"total_steps"}) | {"seed", "name", "log_dir"}
"""Keys that may differ within one curve: they change nothing of what is learnt, or are what the band is over."""


@dataclass(frozen=True, slots=True)
class Group:
    """Seeds of one command."""

    env: str
    label: str
    curves: tuple[Curve, ...]

    @property
    def seeds(self) -> str:
        """How many, in words."""
        return f"{len(self.curves)} {'seeds' if len(self.curves) > 1 else 'seed'}"


def group(runs: Sequence[tuple[Run, Curve]]) -> list[Group]:
    """Put the seeds of each command together, in the order in which they were named."""
    together: dict[str, list[tuple[Run, Curve]]] = {}
    for run, curve in runs:
        together.setdefault(json.dumps(_key(run), sort_keys=True, default=str), []).append((run, curve))
    members = list(together.values())
    keys = [_key(same[0][0]) for same in members]
    return [
        Group(same[0][0].env, _label(key, keys), tuple(curve for _, curve in same))
        for same, key in zip(members, keys, strict=True)
    ]


def _key(run: Run) -> dict[str, Any]:
    """What is learnt from; a key that an older version did not have is at its default."""
    content = dotted(as_plain(TrainConfig())) | dotted(run.config)
    content["replay.learning_starts"] = run.prefill  # auto is a number once a run went on to another total
    return {
        key: value for key, value in content.items() if key not in _NOT_TOLD_APART and not key.startswith("evaluation.")
    }


def _label(key: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> str:
    """The algorithm, and what differs between the curves of its env; other algorithms' own options do not count."""
    own = [other for other in keys if (other["env.env"], other["algo"]) == (key["env.env"], key["algo"])]
    names = dict.fromkeys(name for other in own for name in other)
    differs = [name for name in names if any(other.get(name) != key.get(name) for other in own)]
    return ", ".join([key["algo"], *(f"{name.rpartition('.')[2]}={_short(key.get(name))}" for name in differs)])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")

"""Runs of one command are one curve: which runs those are, and what tells the curves apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unilab.config import as_plain
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


def group(runs: Sequence[tuple[Run, Curve]]) -> list[Group]:
    """Put the seeds of each command together, in the order in which they were named."""
    together: dict[str, list[tuple[Run, Curve]]] = {}
    for run, curve in runs:
        together.setdefault(json.dumps(_key(run)), []).append((run, curve))
    members = list(together.values())
    keys = [_key(same[0][0]) for same in members]
    return [
        Group(same[0][0].cfg.env.env, _label(key, keys), tuple(curve for _, curve in same))
        for same, key in zip(members, keys, strict=True)
    ]


def _key(run: Run) -> dict[str, Any]:
    return {key: value for key, value in dotted(as_plain(run.cfg)).items() if key not in _NOT_TOLD_APART}


def _label(key: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> str:
    """The algorithm, and what differs between the curves of its env; other algorithms' own options do not count."""
    own = [other for other in keys if (other["env.env"], other["algo"]) == (key["env.env"], key["algo"])]
    differs = [name for name in key if any(other[name] != key[name] for other in own)]
    return ", ".join([key["algo"], *(f"{name.rpartition('.')[2]}={_short(key[name])}" for name in differs)])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")

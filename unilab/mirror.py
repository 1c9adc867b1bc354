"""A left/right mirror map: what a row would be had the robot's sides been exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignedPermutation:
    """Column j of the mirrored vector is ``sign[j]`` times column ``index[j]``; done twice it changes nothing.

    Raises:
        ValueError: it is no such map.
    """

    index: tuple[int, ...]
    sign: tuple[int, ...]

    def __post_init__(self) -> None:
        size = len(self.index)
        if len(self.sign) != size or sorted(self.index) != list(range(size)) or {*self.sign} - {-1, 1}:
            raise ValueError(f"no signed permutation: index={self.index}, sign={self.sign}")
        if any(self.index[k] != j or self.sign[k] != self.sign[j] for j, k in enumerate(self.index)):
            raise ValueError(f"mirroring twice must change nothing: index={self.index}, sign={self.sign}")

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The map of each group. Rewards and ends are the same in the mirror; whoever declares one says so."""

    obs: SignedPermutation
    action: SignedPermutation
    critic: SignedPermutation | None = None  # where the env has a critic group


def side_by_side(parts: Sequence[SignedPermutation]) -> SignedPermutation:
    """The map of a vector that is made of these parts, in order."""
    index: list[int] = []
    for part in parts:
        start = len(index)
        index += [start + i for i in part.index]
    return SignedPermutation(tuple(index), tuple(sign for part in parts for sign in part.sign))


def in_place(*sign: int) -> SignedPermutation:
    """Every column stays where it is; some change their sign."""
    return SignedPermutation(tuple(range(len(sign))), sign)

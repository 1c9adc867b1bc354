"""One flat buffer under a module, so that publishing all of its state is one copy.

Parameters and buffers keep their own dtypes: casting everything to float32 loses counters beyond 2^24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor, nn

_ALIGNMENT = 64  # bytes, so that every dtype is aligned and vector loads do not straddle entries


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one state-dict entry lies."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # bytes
    nbytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Names, shapes, dtypes and places of a module's whole state."""

    entries: tuple[Entry, ...]
    nbytes: int

    @staticmethod
    def of(module: nn.Module) -> Manifest:
        """Manifest of ``module``'s state dict, the widest dtypes first, otherwise in its order.

        So entries of two dtypes do not overlap counted in elements either, which is how torch's compiler looks for
        memory that two arguments share: it refuses to compile a step that changes some of them.
        """
        entries, offset = [], 0
        for name, tensor in sorted(module.state_dict().items(), key=lambda item: -item[1].element_size()):
            nbytes = tensor.numel() * tensor.element_size()
            entries.append(Entry(name, str(tensor.dtype), tuple(tensor.shape), offset, nbytes))
            offset += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return Manifest(tuple(entries), max(offset, _ALIGNMENT))

    @property
    def fingerprint(self) -> int:
        """63-bit hash; equal for two modules exactly if their state can be exchanged byte by byte."""
        digest = sha256(repr(self.entries).encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1


class FlatState:
    """Moves a module's parameters and buffers into one buffer and keeps them there.

    The parameters stay the same objects, so an optimiser that already holds them goes on working. Everything
    must from now on change in place; ``module.to`` and assigning a new buffer would break the link.

    Args:
        module: on one device.

    Raises:
        ValueError: two names share one tensor, which cannot be in two places of the buffer.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.manifest = Manifest.of(module)
        state = module.state_dict(keep_vars=True)
        _refuse_shared(state)
        device = next(iter(state.values())).device if state else torch.device("cpu")
        self.buffer = torch.zeros(self.manifest.nbytes, dtype=torch.uint8, device=device)
        for entry in self.manifest.entries:
            tensor = state[entry.name]
            view = self.view(entry)
            view.copy_(tensor.detach())
            # The data swap keeps Parameter and buffer identity.
            tensor.data = view

    def view(self, entry: Entry) -> Tensor:
        """The bytes of one entry as a tensor of its own dtype and shape."""
        raw = self.buffer[entry.offset : entry.offset + entry.nbytes]
        return raw.view(getattr(torch, entry.dtype.removeprefix("torch."))).view(entry.shape)

    def check(self) -> None:
        """Raise ``RuntimeError`` if an entry has left the buffer since (replaced instead of changed in place)."""
        state = self.module.state_dict(keep_vars=True)
        for entry in self.manifest.entries:
            if entry.nbytes and state[entry.name].data_ptr() != self.buffer.data_ptr() + entry.offset:
                raise RuntimeError(f"{entry.name} was replaced and would not be published; change it in place")


def _refuse_shared(state: Mapping[str, Tensor]) -> None:
    names: dict[int, str] = {}
    for name, tensor in state.items():
        if (first := names.setdefault(id(tensor), name)) != name:
            raise ValueError(f"{first} and {name} are one tensor; publish a module that holds it once")

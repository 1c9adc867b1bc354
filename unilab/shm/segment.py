"""Anonymous shared memory: a block has no name, so nothing can leak, clash or be unlinked by a stranger.

On Linux a block is a ``memfd``: it does not live in /dev/shm, whose size (64 MB in a container) therefore does
not matter. Elsewhere it is a file that is created, unlinked at once and kept only as a descriptor; tests force
that path on Linux too. The kernel frees the pages when the last process that maps them has gone, however it
went.

A block travels to a child as one of its ``Process`` arguments: pickling hands the descriptor over.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unilab.errors import BlockFreed

Backing = Literal["memfd", "unlinked_file"]

BACKING: Backing = "memfd" if hasattr(os, "memfd_create") else "unlinked_file"


class Block:
    """Zero-filled bytes that several processes map.

    Args:
        nbytes: size, at least 1; rounded up to whole pages by the kernel.
        label: named in errors and in /proc/<pid>/maps.
        backing: where the bytes live; the default suits the platform.
    """

    def __init__(self, nbytes: int, label: str, *, backing: Backing = BACKING) -> None:
        self.nbytes = nbytes
        self.label = label
        self._fd = _anonymous_file(nbytes, label, backing)
        try:
            self._map: mmap.mmap | None = mmap.mmap(self._fd, nbytes)
        except BaseException:
            os.close(self._fd)
            raise

    def array(self, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """View of ``shape`` and ``dtype`` that starts ``offset`` bytes into the block.

        The view keeps the mapping alive, so that a view that outlives ``free`` reads old bytes but never
        touches unmapped memory.

        Raises:
            BlockFreed: after ``free``.
            ValueError: the view would not fit into the block.
        """
        if self._map is None:
            raise BlockFreed(f"shared memory {self.label!r} was used after it was freed")
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._map, dtype=dtype, count=count, offset=offset).reshape(shape)

    def free(self) -> None:
        """Give up this process's hold on the memory; safe to call twice."""
        if self._map is None:
            return
        mapping, self._map = self._map, None
        os.close(self._fd)
        try:
            mapping.close()
        except BufferError:
            # Views still exist: the last of them unmaps. Closing under them would be a segfault later.
            del mapping

    def __reduce__(self) -> tuple[Any, ...]:
        if self._map is None:
            raise BlockFreed(f"shared memory {self.label!r} was sent to a process after it was freed")
        return _attach, (reduction.DupFd(self._fd), self.nbytes, self.label)


def _attach(handle: Any, nbytes: int, label: str) -> Block:
    """The receiving side of a pickled block."""
    block = Block.__new__(Block)
    block.nbytes, block.label = nbytes, label
    block._fd = receive_descriptor(handle)
    block._map = mmap.mmap(block._fd, nbytes)
    return block


def receive_descriptor(handle: Any) -> int:
    """Take over a ``reduction.DupFd``; it arrives inheritable and must not reach an env's own children."""
    descriptor: int = handle.detach()
    os.set_inheritable(descriptor, False)
    return descriptor


def _anonymous_file(nbytes: int, label: str, backing: Backing) -> int:
    if backing == "memfd":
        descriptor = os.memfd_create(f"unilab-{label}", os.MFD_CLOEXEC)
    else:
        descriptor, path = tempfile.mkstemp(prefix="unilab-")
        os.unlink(path)
    try:
        os.ftruncate(descriptor, nbytes)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

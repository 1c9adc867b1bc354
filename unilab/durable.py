"""Files that are on disk, whole, once the block that writes them ends."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_SMALL = 2**20
"""Bytes below which writes are put together: each write lets go of the interpreter lock and has to wait for it again,
behind a busy main thread for up to 5 ms."""


class DurableFile:
    """A new file that is hashed while it is written, and synced at the end of its block.

    Args:
        path: must not exist.

    Raises:
        OSError: also from the end of the block; what is there of the file is for the caller to remove.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sha = hashlib.sha256()
        self._pending = bytearray()
        self.nbytes = 0
        """Bytes given to ``write`` so far."""

    @property
    def sha256(self) -> str:
        """Hex digest of what is on disk."""
        return self._sha.hexdigest()

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes; returns how many there were."""
        self.nbytes += len(data)
        if len(data) < _SMALL:
            self._pending += data
        else:
            self._flush()
            self._put(memoryview(data))
        if len(self._pending) >= _SMALL:
            self._flush()
        return len(data)

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _flush(self) -> None:
        pending, self._pending = self._pending, bytearray()
        self._put(memoryview(pending))

    def _put(self, data: memoryview) -> None:
        while data:
            done = os.write(self._descriptor, data)
            if not done:
                raise OSError(errno.EIO, "nothing was written", str(self._path))
            self._sha.update(data[:done])
            data = data[done:]


def sync_directory(path: Path) -> None:
    """Put the names in a directory on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

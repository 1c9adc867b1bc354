"""Every error that unilab raises for its caller.

UnilabError
|-- UsageError            exit code 2: refused before any process starts
|   |-- ConfigError       a value, a name or a combination that cannot work
|   |-- EnvError          an environment that cannot be made or trained on
|   `-- ResourceError     memory, descriptors or threads that the machine does not have
|-- BlockFreed            shared memory used after it was freed
|-- NonFinite             a NaN or an infinity, named with its place
|-- WaitTimeout           a deadline passed; says what was waited for
|-- Stopped               the run was asked to stop while this process waited
`-- WorkerDied            exit code 70: a worker process ended or raised
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class UnilabError(Exception):
    """Base of all errors below."""

    exit_code = 1


class UsageError(UnilabError):
    """The request cannot be carried out; nothing was started."""

    exit_code = 2


class ConfigError(UsageError):
    """A value, a name or a combination in the configuration cannot work."""


class EnvError(UsageError):
    """An environment cannot be made, or its spaces cannot be trained on."""


class ResourceError(UsageError):
    """The machine lacks what the configuration asks for."""


class BlockFreed(UnilabError):
    """Shared memory was used after it was freed."""


class NonFinite(UnilabError):
    """A NaN or an infinity appeared; the message names where."""


class WaitTimeout(UnilabError):
    """A wait passed its deadline; the message names what it waited for."""


class Stopped(UnilabError):
    """The run was asked to stop while this process waited."""


class WorkerDied(UnilabError):
    """A worker process ended or raised; the message carries its traceback or signal.

    Args:
        message: what became of it.
        worker: its name, perhaps with its pid behind it; None where it is not known.
    """

    exit_code = 70

    def __init__(self, message: str, worker: str | None = None) -> None:
        super().__init__(message)
        self.worker = worker


_MACHINE = {
    errno.ENOSPC: "",
    errno.EDQUOT: "",
    errno.EFBIG: "; see `ulimit -f`",
    errno.EROFS: "",
    errno.EIO: "",
    errno.ESTALE: "",
    errno.EMFILE: "; raise `ulimit -n`",
    errno.ENFILE: "; see `sysctl fs.file-max`",
    errno.ENOMEM: "",
    errno.EAGAIN: "; see `ulimit -u`",
}
"""Errors that say something about the machine, not about a program: what to do, where that is not plain."""


def machine_trouble(error: OSError) -> str | None:
    """The sentence for an error of the machine, which a traceback would not explain; None for any other error."""
    if error.errno not in _MACHINE:
        return None
    return f"{error.strerror}{f' ({error.filename})' if error.filename else ''}{_MACHINE[error.errno]}"


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'X'?"`` for the closest known name, or an empty string."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""

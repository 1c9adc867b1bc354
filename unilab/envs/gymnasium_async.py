"""One process per gymnasium env: ``AsyncVectorEnv`` over guarded envs (see ``gymnasium_guard``)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorWrapper

from unilab.envs.gymnasium_guard import ERROR, HIDDEN, MakeGuard, unpack_error
from unilab.envs.vector_adapter import VectorAdapter
from unilab.errors import EnvError, WorkerDied
from unilab.spec import EnvSpec

if TYPE_CHECKING:
    from unilab.envs.registry import EnvConfig

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_CLOSE_LIMIT_S = 5.0


def make_async(
    cfg: EnvConfig, *, seeds: Sequence[int], first_index: int, spec: EnvSpec, log_dir: Path | None
) -> VectorAdapter:
    """Start one process per env; each is limited to one thread unless the environment says otherwise.

    On Linux the kernel kills the env processes when the calling thread ends, so call this from a thread that
    outlives the envs.

    Raises:
        EnvError: this process is daemonic.
        WorkerDied: a process ended before it answered.
    """
    if multiprocessing.current_process().daemon:
        raise EnvError(f"{cfg.env}: vec='async' cannot start processes in a daemonic one; use vec='sync'")
    guards = [MakeGuard(cfg, spec, first_index + i, log_dir) for i in range(len(seeds))]
    try:
        with _one_thread_each():
            vec = AsyncVectorEnv(guards, context="spawn", copy=False, autoreset_mode=AutoresetMode.DISABLED)
    except (EOFError, ConnectionError) as error:
        raise WorkerDied(f"{cfg.env}: an env process ended while it started; its output is above") from error
    return VectorAdapter(
        LoudVector(vec, first_index),
        seeds=seeds,
        env_id=cfg.env,
        critic_keys=(HIDDEN,) if spec.critic_dim else (),
        first_index=first_index,
        spec=spec,
    )


class LoudVector(VectorWrapper[Any, Any, Any, Any, Any]):
    """An ``AsyncVectorEnv`` over guards that raises what its envs raised, and says who died.

    Args:
        vec: the vector env, which this object owns from now on.
        first_index: run-wide index of its first env.
    """

    def __init__(self, vec: AsyncVectorEnv, first_index: int) -> None:
        super().__init__(vec)
        self._vec = vec
        self._first_index = first_index

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See ``VectorEnv``; raises the env's own exception, or ``WorkerDied``."""
        try:
            obs, infos = self._vec.reset(seed=seed, options=options)
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        _raise_errors(infos)
        return obs, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """See ``VectorEnv``; raises the env's own exception, or ``WorkerDied``."""
        try:
            result = self._vec.step(actions)
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        _raise_errors(result[4])
        return result

    def close(self, **kwargs: Any) -> None:
        """Ask every process to close its env; kill those that have not ended after 5 s. May be called twice.

        Not ``AsyncVectorEnv.close``, which waits for ever for an env that hangs and fails on a dead one.
        """
        if self._vec.closed:
            return
        self._vec.closed = True
        deadline = time.monotonic() + _CLOSE_LIMIT_S
        pipes = [pipe for pipe in self._vec.parent_pipes if pipe is not None]
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        for pipe in pipes:
            with contextlib.suppress(EOFError, OSError):
                while pipe.poll(max(0.0, deadline - time.monotonic())):  # until its process lets go of it
                    pipe.recv()
            pipe.close()
        for process in self._vec.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._vec.error_queue.close()

    def _death(self) -> WorkerDied:
        """Which env's process has ended, and how."""
        for i, process in enumerate(self._vec.processes):
            process.join(0.1)  # its pipe breaks a moment before it can be reaped
            if (code := process.exitcode) is not None:
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                return WorkerDied(f"the process of env index {self._first_index + i} {how}")
        return WorkerDied("an env process closed its pipe")


def _raise_errors(infos: dict[str, Any]) -> None:
    for packed in infos.get(ERROR, ()):
        if packed is not None:
            raise unpack_error(packed)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit the threads of processes started inside; a limit that the user has set stays."""
    added = [name for name in _THREAD_LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]

"""Saves checkpoints in a thread while training goes on.

The thread reads the shared rings in place, oldest rows first. The runtime asks ``allow_overwrite`` before it grants a
chunk whose rows overwrite old ones, so nothing is copied and nobody waits unless the ring's end catches up with the
disk. A save that fails removes what it wrote, leaves a sentence, and takes no older checkpoint along.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from unilab.checkpoint.folder import checkpoint_name, draft_path, prune, put_in_place, sweep
from unilab.checkpoint.meta import STATE
from unilab.checkpoint.write import Known, write_meta, write_replay, write_state
from unilab.replay.ring import Ring
from unilab.replay.segments import Segment


class Checkpoints:
    """The ``checkpoints`` directory of a run; one thread uses it.

    Args:
        directory: belongs to this run alone; made by a save if it is missing.
        keep: newest checkpoints kept; 0 keeps all.
        rings: saved too, in segments; none saves states only.
    """

    def __init__(self, directory: Path, *, keep: int, rings: Sequence[Ring] = ()) -> None:
        self.directory = directory
        self.failures: list[str] = []
        """One sentence per failed save, in order: which, and why."""
        self._keep = keep
        self._rings = rings
        self._known: Known | None = None
        self._newest: Path | None = None
        self._thread: threading.Thread | None = None
        self._moved = threading.Condition()
        self._needed_from = [math.inf] * len(rings)  # of each: the first row that the running save has still to read

    def adopt(self, checkpoint: Path, segments: Sequence[Sequence[Segment]]) -> None:
        """Let later saves link the segments of a checkpoint that was loaded.

        Args:
            checkpoint: its directory, of this run or of another.
            segments: as ``load_replay`` returned them.
        """
        self._known = Known(checkpoint, tuple(map(tuple, segments)))
        if checkpoint.parent.resolve() == self.directory.resolve():
            self._newest = checkpoint

    def begin(
        self,
        env_steps: int,
        state: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        rows: Sequence[tuple[int, int]] = (),
        as_of_s: float | None = None,
    ) -> None:
        """Start to save ``step_<env_steps>``, in place of one of the same name, once the save before has ended.

        Args:
            env_steps: rows ever appended.
            state: nested dicts of tensors, numbers and strings that nobody changes any more, on the CPU.
            meta: JSON values, for people and tools.
            rows: [low, stop) of each ring, the rows that belong to the checkpoint; they may be none.
            as_of_s: seconds since the epoch when this was the state, if that is some time ago: the file's time, so that
                the newest file is the newest state.
        """
        self.wait()
        for low, stop in rows:
            if low > stop:
                raise ValueError(f"rows [{low}, {stop}) end before they begin")
        self._needed_from = [low for low, _ in rows]
        save = partial(self._save, env_steps, state, meta, rows, as_of_s)
        self._thread = threading.Thread(target=self._run, args=(env_steps, save), name="checkpoint")
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread to be had
            self._thread = None
            self._failed(env_steps, error)

    def wait(self) -> Path | None:
        """Return once no save runs: the newest checkpoint that was saved, or None."""
        if self._thread:
            self._thread.join()
            self._thread = None
        return self._newest if self._newest and self._newest.is_dir() else None

    def allow_overwrite(self, below: Sequence[int]) -> None:
        """Return once no save needs rows below these numbers from the rings any more; at once if none runs.

        Only the disk is awaited, which wakes with an error when it gives up; signals are handled meanwhile.
        """
        if not self._all_read(below):
            with self._moved:
                self._moved.wait_for(lambda: self._all_read(below))

    def close(self) -> None:
        """Let the running save end; the ring may be freed afterwards."""
        self.wait()

    def _run(self, env_steps: int, save: Callable[[], None]) -> None:
        try:
            save()
        except Exception as error:
            sweep(self.directory)
            self._failed(env_steps, error)
        finally:
            self._read_all()

    def _save(
        self,
        env_steps: int,
        state: Mapping[str, Any],
        meta: Mapping[str, Any],
        rows: Sequence[tuple[int, int]],
        as_of_s: float | None = None,
    ) -> None:
        final = self.directory / checkpoint_name(env_steps)
        self.directory.mkdir(parents=True, exist_ok=True)
        sweep(self.directory)
        draft = draft_path(final)
        draft.mkdir()
        about: dict[str, Any] = {"env_steps": env_steps, **meta, "replay": None}
        segments: tuple[tuple[Segment, ...], ...] = ()
        if self._rings:  # first, so that the collectors can go on soonest
            segments = tuple(self._save_ring(draft, ring, span) for ring, span in zip(self._rings, rows, strict=True))
            about["replay"] = {"rows": [list(span) for span in rows], "row_width": self._rings[0].layout.width}
        sums = {segment.name: segment.sha256 for part in segments for segment in part}
        write_meta(draft, about, {STATE: write_state(draft, state), **sums})
        if as_of_s is not None:
            os.utime(draft / STATE, (as_of_s, as_of_s))
        put_in_place(draft, final)
        self._known, self._newest = Known(final, segments), final
        prune(self.directory, final, self._keep)

    def _save_ring(self, draft: Path, ring: Ring, rows: tuple[int, int]) -> tuple[Segment, ...]:
        def needed_from(row: float) -> None:
            with self._moved:
                self._needed_from[ring.index] = row
                self._moved.notify_all()

        segments = write_replay(draft, ring, rows, self._known, needed_from)
        needed_from(math.inf)
        return segments

    def _all_read(self, below: Sequence[int]) -> bool:
        return all(row <= needed for row, needed in zip(below, self._needed_from, strict=True))

    def _read_all(self) -> None:
        with self._moved:
            self._needed_from = [math.inf] * len(self._rings)
            self._moved.notify_all()

    def _failed(self, env_steps: int, error: Exception) -> None:
        self._needed_from = [math.inf] * len(self._rings)
        self.failures.append(f"checkpoint at env step {env_steps:,} could not be saved: {_why(error)}")


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"its directory vanished ({error.filename})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f" ({error.filename})" if error.filename else "")
    return f"{type(error).__name__}: {str(error).strip() or 'no reason given'}".splitlines()[0]

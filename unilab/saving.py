"""Checkpoints of a run: the state is copied while nothing is in flight, and written beside the ticks that follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unilab.assembly import Shared
from unilab.checkpoint import Checkpoints, checkpoint_name, list_checkpoints, load_replay, steps_of
from unilab.collectors import Crew
from unilab.digest import all_finite
from unilab.errors import NonFinite, WaitTimeout, WorkerDied
from unilab.preflight import Plan
from unilab.resume import Resume
from unilab.run_state import Parts, gather
from unilab.sampling import Sampling
from unilab.shm import Waiter
from unilab.weights import FlatState


class Saver:
    """Saves when it is told to.

    Args:
        plan: of the run.
        parts: whose state is saved.
        flat: the published state; checked before each save.
        shared: rings and counters.
        collectors: parked for each save.
        sampling: its state is saved too.
        waiter: of this thread.
        note: takes a message for the console.
    """

    def __init__(
        self,
        plan: Plan,
        parts: Parts,
        flat: FlatState,
        shared: Shared,
        collectors: Crew,
        sampling: Sampling,
        waiter: Waiter,
        note: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._flat = flat
        self._shared = shared
        self._collectors = collectors
        self._sampling = sampling
        self._waiter = waiter
        self._note = note
        self._saved = -1  # last tick
        self._told = self._begun = 0  # failures: those that were told, those before the newest save
        self._ending = False
        self._checkpoints = Checkpoints(plan.run_dir / "checkpoints", keep=plan.cfg.keep, rings=shared.replay.rings)

    def go_on(self, resume: Resume) -> None:
        """Fill the rings with what the checkpoint has; later saves share its files.

        What an earlier attempt saved behind this checkpoint is set aside under another name.
        """
        self._checkpoints.adopt(resume.checkpoint, load_replay(resume.checkpoint, self._shared.replay.rings))
        for later in list_checkpoints(resume.checkpoint.parent):
            if steps_of(later) > int(resume.state["env_steps"]):
                name = checkpoint_name(steps_of(later))
                names = (later.with_name(f"abandoned_{n}_{name}") for n in itertools.count(1))
                later.rename(next(path for path in names if not path.exists()))
        self._saved = int(resume.state["tick"])

    def save(self, tick: int, patience_s: float | None = None) -> None:
        """Start to write a checkpoint of the state after ``tick``.

        The collectors are parked first: what was granted is in and nothing more is granted, so nothing is in flight.

        Args:
            tick: last finished.
            patience_s: give up waiting for what was granted after this time and save all the same; None waits as ever.

        Raises:
            NonFinite: the state holds a NaN or an infinity; nothing is written.
        """
        if tick == self._saved:
            return
        self.wait()  # two copies of the state would be one too many
        collectors = self._park(tick, patience_s)
        finished = self._shared.finished
        if self._plan.schedule.ahead is None and len(set(finished)) > 1:
            finished, collectors = self._level(tick), [None] * len(collectors)
        state = gather(
            self._plan,
            self._parts,
            self._sampling,
            tick=tick,
            counted=self._collectors.pacer.counted(tick),
            finished=finished,
            starts=self._plan.starts + self._collectors.restarts,
            collectors=collectors,
        )
        if not all_finite(state["learner"]):
            raise NonFinite(f"the learner's state holds a NaN or an infinity at tick {tick:,}; it is not saved")
        self._flat.check()
        shares, cfg = self._plan.schedule.shares, self._plan.cfg
        rows = [(share.oldest(chunk), share.watermark(chunk)) for share, chunk in zip(shares, finished, strict=True)]
        counts = {name: state[name] for name in ("tick", "updates", "wall_time_s")}
        self._begun = len(self._checkpoints.failures)
        meta = counts | {"env": cfg.env.env, "algo": cfg.algo, "spaces": self._plan.spec.spaces()}
        self._checkpoints.begin(state["env_steps"], state, meta, rows=rows)
        self._saved = tick

    def before_chunk(self, chunk: int) -> None:
        """Return once the rows that its grant lets be overwritten are on disk, where a save still needs them."""
        reach = self._collectors.pacer.reach(chunk)
        shares = zip(self._plan.schedule.shares, reach, strict=True)
        self._checkpoints.allow_overwrite([share.watermark(newest) - share.capacity for share, newest in shares])
        self._tell()

    def save_last(self, tick: int, patience_s: float | None = None) -> None:
        """As ``save``, until it is written; tried once more where it was in vain."""
        self._ending = True
        self.save(tick, patience_s)
        self.wait()
        if self.lost:
            self._saved = -1
            self.save(tick, patience_s)
            self.wait()

    @property
    def lost(self) -> str | None:
        """Why the newest save failed, in a sentence; None if it did not, or is not over yet."""
        failed = self._checkpoints.failures[self._begun :]
        return failed[-1] if failed else None

    def wait(self) -> Path | None:
        """Return once no save runs: the newest checkpoint that was saved, or None."""
        newest = self._checkpoints.wait()
        self._tell()
        return newest

    def _tell(self) -> None:
        for failure in self._checkpoints.failures[self._told :]:
            self._told += 1
            self._note(failure if self._ending else f"{failure}; training goes on")

    def close(self) -> None:
        """End the thread that writes."""
        self._checkpoints.close()

    def _level(self, tick: int) -> list[int]:
        """Lockstep goes on with all collectors at the same chunk: those that are one further give it up again.

        It is their last one, since the run ends: another collector died in its own, or did not come to its end in time.
        That one may still be at it.

        Returns:
            The chunk of each from now on.
        """
        for channel, share in zip(self._shared.channels, self._plan.schedule.shares, strict=True):
            if channel.counters["finished"] > tick:
                channel.ring.rewind(share.watermark(tick))
                channel.stats.rewind(tick)
                channel.counters["finished"] = tick
        return [tick] * len(self._shared.channels)

    def _park(self, tick: int, patience_s: float | None) -> list[Mapping[str, Any] | None]:
        """Wait until nothing is in flight; returns the collectors' states, None for those that are not to be had."""
        pacer = self._collectors.pacer
        if patience_s is None:

            def parked() -> list[Mapping[str, Any] | None]:
                pacer.wait_parked(tick, self._waiter)
                return self._collectors.states(self._waiter)

            return self._collectors.surviving(parked)
        # An interrupt has come already: it must not end this wait.
        patient = Waiter(self._shared.learner)
        self._collectors.watched_by(self._waiter, patient)
        try:
            limit_s = patience_s if self._collectors.alive else 0.0
            patient.wait(lambda: pacer.parked(tick), f"the chunks after tick {tick}", limit_s)
            return self._collectors.states(patient, limit_s)
        except (WaitTimeout, WorkerDied):
            return [None] * len(self._shared.channels)

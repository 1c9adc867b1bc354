"""Whatever fails while a checkpoint is saved, the older ones load, the failure is told, the next save works."""

import errno
import os
import shutil

import pytest
from run_states import Run, state_of

from unilab.checkpoint import find_checkpoint, list_checkpoints

CALLS = ("open", "write", "fsync", "link", "mkdir", "replace", "unlink", "rmdir")
"""All that saving changes on the disk with."""


class KilledError(BaseException):
    """Not an ``Exception``: nobody tidies up, as after SIGKILL."""


class Faults:
    """Counts calls; from the k-th on (``once``: that one only) they raise.

    Args:
        patch: for ``os``.
        error: makes the exception.
        k: counts from 1; 0 lets all calls pass.
        once: later calls pass.
    """

    def __init__(self, patch, error, k, *, once=False):
        self.count = 0
        self._error, self._k, self._once = error, k, once
        for name in CALLS:
            patch.setattr(os, name, self._faulty(getattr(os, name)))

    def _faulty(self, call):
        def faulty(*args, **kwargs):
            self.count += 1
            if self._k and (self.count == self._k or (self.count > self._k and not self._once)):
                raise self._error()
            return call(*args, **kwargs)

        return faulty


def full():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def new_run(folder):
    """Checkpoints of 25 and 30 env steps; the next one links one segment, writes another, and replaces the first."""
    run = Run(folder, capacity=50, chunk=5, keep=2)
    run.advance(5).save()
    run.advance().save()
    return run.advance()


def each_call(tmp_path, save):
    """A run for every k with the number k, until ``save`` makes fewer than k calls."""
    with pytest.MonkeyPatch.context() as patch:
        run = new_run(tmp_path / "count")
        faults = Faults(patch, full, 0)
        save(run)
    assert faults.count > 20
    for k in range(1, faults.count + 1):
        yield k, new_run(tmp_path / str(k))


def whole(run):
    """Env steps of all checkpoints, each checked to the last row."""
    return [run.check(path) for path in list_checkpoints(run.store.directory)]


def dotted(run):
    return [name for name in os.listdir(run.store.directory) if name.startswith(".")]


@pytest.mark.parametrize("once", [False, True], ids=["from then on", "once"])
def test_a_disk_that_is_full_at_any_call_costs_no_older_checkpoint(tmp_path, once):
    told = 0
    for k, run in each_call(tmp_path, Run.save):
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, full, k, once=once)
            newest = run.save()
        told += len(run.store.failures)

        if run.store.failures:
            assert run.store.failures == ["checkpoint at env step 35 could not be saved: No space left on device"]
            assert newest.name == "step_000000000030"
            assert whole(run)[:2] == [25, 30]  # and 35, if only its name is perhaps not on disk
        else:
            assert newest.name == "step_000000000035"
            assert whole(run)[-2:] == [30, 35]
        run.advance().save()
        assert len(run.store.failures) <= 1
        assert whole(run)[-1] == 40
        assert len(whole(run)) == 2
        assert dotted(run) == []
    assert told > 10


def kill(run, k, save):
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, KilledError, k)
        with pytest.raises((KilledError, RuntimeError)):  # torch turns one into the other
            save(run)


def save_here(run, step=35):
    """Save in this thread, so that a kill ends it where it is."""
    run.store._save(step, state_of(step), {}, [(max(0, step + 5 - 50), step)])


def test_a_kill_at_any_call_leaves_the_newest_whole_and_one_draft_which_the_next_save_removes(tmp_path):
    for k, run in each_call(tmp_path, save_here):
        kill(run, k, save_here)

        found = find_checkpoint(run.store.directory)
        assert run.check(found.path) in (30, 35)
        assert found.skipped == []
        assert len(whole(run)) >= 2
        assert len(dotted(run)) <= 1
        run.advance().save()
        assert run.store.failures == []
        assert whole(run)[-1] == 40
        assert dotted(run) == []


def save_again(run):
    save_here(run, 30)


def test_a_kill_while_a_step_is_replaced_leaves_one_of_the_two(tmp_path):
    for k, run in each_call(tmp_path, save_again):
        kill(run, k, save_again)

        assert run.check(find_checkpoint(run.store.directory).path) == 30
        assert whole(run) in ([25, 30], [30])
        run.save()
        assert whole(run)[-2:] == [30, 35]
        assert dotted(run) == []


# ------------------------------------------------------------ directories


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_a_directory_that_cannot_be_written_is_told_and_written_again_once_it_can(tmp_path, code):
    run = new_run(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, lambda: OSError(code, os.strerror(code), "/there"), 1)
        assert run.save().name == "step_000000000030"

    assert run.store.failures == [f"checkpoint at env step 35 could not be saved: {os.strerror(code)} (/there)"]
    assert whole(run) == [25, 30]
    assert run.advance().save().name == "step_000000000040"
    assert whole(run) == [30, 40]


def test_a_directory_that_vanished_is_made_again(tmp_path):
    run = new_run(tmp_path / "run" / "checkpoints")
    shutil.rmtree(tmp_path / "run")
    run.save()

    assert run.store.failures == []
    assert whole(run) == [35]


def test_a_directory_that_vanishes_during_a_save_is_told(tmp_path, monkeypatch):
    run = new_run(tmp_path / "run" / "checkpoints")
    fsync = os.fsync

    def vanishing(descriptor):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", vanishing)
    assert run.save() is None
    monkeypatch.undo()

    (failure,) = run.store.failures
    assert "could not be saved: its directory vanished" in failure
    assert run.check(run.advance().save()) == 40


def test_a_file_where_the_directory_should_be_is_told(tmp_path):
    run = new_run(tmp_path / "checkpoints")
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "checkpoints").write_text("")

    assert run.save() is None
    assert "could not be saved: File exists" in run.store.failures[0]


# ------------------------------------------------------------ contents


def test_a_state_that_cannot_be_saved_is_told(tmp_path):
    run = new_run(tmp_path)
    run.store.begin(35, {"odd": lambda: None}, {}, rows=[(0, 35)])

    assert run.store.wait().name == "step_000000000030"
    assert "pickle" in run.store.failures[0]
    assert whole(run) == [25, 30]


def test_what_json_has_no_word_for_is_told(tmp_path):
    run = new_run(tmp_path)
    run.store.begin(35, state_of(35), {"odd": float("nan")}, rows=[(0, 35)])

    assert run.store.wait().name == "step_000000000030"
    assert "JSON" in run.store.failures[0]


def test_rows_that_are_not_in_the_ring_are_told(tmp_path):
    run = new_run(tmp_path)
    run.store.begin(36, state_of(36), {}, rows=[(0, 36)])

    assert run.store.wait().name == "step_000000000030"
    assert "rows [" in run.store.failures[0]
    run.store.allow_overwrite([10**9])  # nobody waits for a save that failed


def test_no_thread_to_be_had_is_told(tmp_path, monkeypatch):
    def none_left(thread):
        raise RuntimeError("can't start new thread")

    run = new_run(tmp_path)
    monkeypatch.setattr("threading.Thread.start", none_left)
    run.begin()

    assert run.store.failures == ["checkpoint at env step 35 could not be saved: RuntimeError: can't start new thread"]
    run.store.allow_overwrite([10**9])
    assert run.store.wait().name == "step_000000000030"

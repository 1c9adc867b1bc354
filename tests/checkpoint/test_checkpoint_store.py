"""Checkpoints are whole or not there, self-contained, few, and share what they have in common."""

import json
import os
import shutil
import threading

import pytest
import torch
from run_states import Run, segment_files, state_of, step_in
from tape import LAYOUT, WIDTH

from unilab.checkpoint import Checkpoints, list_checkpoints, load_checkpoint, load_replay, store
from unilab.checkpoint.write import write_replay
from unilab.replay import Ring, segments


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "run" / "checkpoints"


@pytest.fixture
def run(directory):
    run = Run(directory)
    yield run
    run.store.close()
    assert run.store.failures == []


def names(directory):
    return sorted(os.listdir(directory))


# ------------------------------------------------------------ one checkpoint


def test_what_is_saved_is_what_is_loaded(run):
    path = run.advance(8).save()
    state = load_checkpoint(path)

    assert path.name == "step_000000000040"
    assert torch.equal(state["learner"]["w"], torch.full((1000,), 40.0))
    assert state["learner"]["count"].item() == 40
    assert state["learner"]["w"].device.type == "cpu"
    assert run.check(path) == 40


@pytest.mark.parametrize("chunks", [0, 1, 9, 10, 11, 19, 20, 21, 33])
def test_the_rows_that_can_still_be_drawn_are_saved_wherever_the_ring_stands(run, chunks):
    assert run.check(run.advance(chunks).save()) == 5 * chunks


def test_people_find_what_it_is_in_json(run):
    meta = json.loads((run.advance(20).save() / "meta.json").read_text())

    assert (meta["schema"], meta["env_steps"], meta["tick"]) == (4, 100, 20)
    assert meta["replay"] == {"rows": [[55, 100]], "row_width": WIDTH}
    assert meta["files"]["replay_000000000055_000000000100.rows"]["bytes"] == 45 * (4 * WIDTH + 8)


def test_without_a_ring_there_is_no_replay(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=0)
    checkpoints.begin(40, state_of(40), {}, rows=[(0, 0)])
    path = checkpoints.wait()

    assert step_in(path) == 40
    assert names(path) == ["meta.json", "state.pt"]


def test_before_the_first_save_there_is_no_newest(run):
    assert run.store.wait() is None


def test_a_save_begins_once_the_one_before_has_ended(run):
    for _ in range(5):
        run.advance().begin()
    run.store.wait()

    assert [run.check(path) for path in list_checkpoints(run.store.directory)] == [15, 20, 25]


def test_nothing_is_renamed_before_it_is_on_disk(run, monkeypatch):
    run.advance(9).save()
    events = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}").rpartition("/")[2].partition("_")[0])
        fsync(descriptor)

    def spy_replace(source, target):
        replace(source, target)
        events.append("rename")

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    run.advance().save()

    assert events == ["replay", "state.pt", "meta.json", ".step", "rename", "checkpoints"]


# ------------------------------------------------------------ which are kept


def test_checkpoints_are_listed_oldest_first_by_env_steps(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=0)
    for step in (1000, 999, 20_000):
        checkpoints.begin(step, state_of(step), {}, rows=[(0, 0)])
    checkpoints.wait()

    assert [step_in(path) for path in list_checkpoints(tmp_path)] == [999, 1000, 20_000]


def test_the_newest_are_kept_and_each_is_whole(run, directory):
    for _ in range(30):
        run.advance().save()

    assert [run.check(path) for path in list_checkpoints(directory)] == [140, 145, 150]


def test_keep_0_keeps_all(directory):
    run = Run(directory, keep=0)
    for _ in range(30):
        run.advance().save()

    assert [run.check(path) for path in list_checkpoints(directory)] == list(range(5, 155, 5))


def test_a_newer_one_of_an_attempt_that_was_given_up_does_not_cost_the_one_just_saved(directory):
    given_up = Run(directory, keep=1)
    given_up.advance(20).save()
    run = Run(directory, keep=1)
    for _ in range(3):
        run.advance().save()

    assert names(directory) == ["step_000000000015", "step_000000000100"]


def test_a_save_of_the_same_step_replaces_it(run, directory):
    run.advance(8).save()
    run.store.begin(40, state_of(41), {}, rows=[(0, 40)])
    run.store.wait()

    assert [step_in(path) for path in list_checkpoints(directory)] == [41]
    assert names(directory) == ["step_000000000040"]


def test_strangers_in_the_directory_are_not_listed(run, directory):
    run.advance(8).save()
    (directory / "step_000000000050").mkdir()  # without a state
    (directory / "step_000000000060").write_text("a file")
    (directory / "notes.txt").write_text("")

    assert [path.name for path in list_checkpoints(directory)] == ["step_000000000040"]


# ------------------------------------------------------------ shared segments


def test_what_the_one_before_has_is_linked_and_only_new_rows_are_written(directory):
    run = Run(directory, capacity=1000)
    first = run.advance(100).save()
    second = run.advance().save()

    assert [path.name for path in segment_files(second)] == [
        segment_files(first)[0].name,
        "replay_000000000500_000000000505.rows",
    ]
    assert os.stat(segment_files(first)[0]).st_ino == os.stat(segment_files(second)[0]).st_ino
    assert [run.check(path) for path in (first, second)] == [500, 505]


def test_500_saves_leave_log_n_segments_that_are_right(directory):
    run = Run(directory, capacity=400, keep=2)
    for save in range(500):
        path = run.advance().save()
        assert len(segment_files(path)) <= 8  # 1 + log2(395 / 5)
        if save % 50 == 49:
            run.check(path)


def test_deleting_a_checkpoint_leaves_the_others_whole(run, directory):
    for _ in range(3):
        run.advance(4).save()
    first, second, third = list_checkpoints(directory)
    shutil.rmtree(first)
    shutil.rmtree(third)

    assert run.check(second) == 40


def test_a_copy_elsewhere_is_whole(run, directory, tmp_path):
    for _ in range(3):
        run.advance(4).save()
    shutil.copytree(directory, tmp_path / "copy")
    shutil.rmtree(directory)

    assert [run.check(path) for path in list_checkpoints(tmp_path / "copy")] == [20, 40, 60]


def refuse_links(monkeypatch):
    def refused(source, target):
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(os, "link", refused)


def test_where_links_are_refused_all_rows_are_written(run, monkeypatch):
    refuse_links(monkeypatch)
    for _ in range(15):
        path = run.advance().save()

    assert run.check(path) == 75
    assert len(segment_files(path)) == 1


def spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [spoil, os.remove, lambda path: shutil.rmtree(path.parent)])
def test_a_segment_that_changed_after_it_was_written_is_not_passed_on(directory, harm):
    run = Run(directory, capacity=1000)
    first = run.advance(100).save()
    harm(segment_files(first)[0])

    assert run.check(run.advance().save()) == 505
    assert run.store.failures == []


@pytest.mark.parametrize("where", ["same", "other"])
def test_a_run_that_goes_on_links_the_segments_that_it_loaded(directory, tmp_path, where):
    run = Run(directory, capacity=1000)
    loaded = run.advance(100).save()
    ring = Ring(1000, LAYOUT)
    again = Checkpoints(directory if where == "same" else tmp_path / "other", keep=3, rings=[ring])
    again.adopt(loaded, load_replay(loaded, [ring]))

    assert again.wait() == (loaded if where == "same" else None)
    run.tape.ring = ring
    run.store = again
    saved = run.advance().save()
    assert os.stat(segment_files(loaded)[0]).st_ino == os.stat(segment_files(saved)[0]).st_ino
    assert run.check(saved) == 505


# ------------------------------------------------------------ overwriting


def test_a_row_is_overwritten_only_after_it_was_saved(directory, monkeypatch):
    """The collector overwrites as soon as it may; the rows of each save are compared with the oracle."""
    monkeypatch.setattr(segments, "_CHUNK", 40_000)  # a thousand rows
    run = Run(directory, capacity=60_000, chunk=1_000, keep=1)
    run.advance(60)
    appended = 0
    for _ in range(8):
        rows = run.begin()
        begun = appended
        while run.store._thread.is_alive() and appended < begun + 59:
            run.advance()
            appended += 1
        ring = Ring(60_000, LAYOUT)
        load_replay(run.store.wait(), [ring])
        assert run.store.failures == []
        run.tape.holds(ring, *rows)
    assert appended > 0


def test_overwriting_waits_for_the_rows_it_would_take_and_for_no_others(run, monkeypatch):
    held, go_on = threading.Event(), threading.Event()

    def held_up(*args):
        held.set()
        assert go_on.wait(60)
        return write_replay(*args)

    monkeypatch.setattr(store, "write_replay", held_up)
    low, stop = run.advance(20).begin()
    assert held.wait(60)
    run.store.allow_overwrite([low])  # returns at once
    waiting = threading.Thread(target=run.store.allow_overwrite, args=([low + 1],))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(60)

    assert not waiting.is_alive()
    assert run.check(run.store.wait()) == stop


def test_nothing_waits_while_no_save_runs(run):
    run.advance(20).store.allow_overwrite([10**12])
    run.save()
    run.store.allow_overwrite([10**12])

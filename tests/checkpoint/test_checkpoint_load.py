"""A checkpoint that was spoilt is refused by name, before anything in it is used."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from run_states import Run, segment_files, state_of
from tape import LAYOUT

from unilab.checkpoint import Checkpoints, load_checkpoint, load_replay, meta, preload, preloadable, verify, write
from unilab.errors import ConfigError
from unilab.replay import Ring, RowLayout
from unilab.replay.ring import RANDOM_POLICY


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path, capacity=1000, chunk=5)


@pytest.fixture
def saved(run):
    """Two segments, rows 0 to 505."""
    run.advance(100).save()
    return run.advance().save()


def load_all(path):
    load_checkpoint(path)
    load_replay(path, [Ring(1000, LAYOUT)])


def refused(load, path, why, file=None):
    with pytest.raises(ConfigError, match=why) as caught:
        load(path)
    message = str(caught.value)
    assert str(path if file is None else path / file) in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


FILES = [
    "state.pt",
    "meta.json",
    "replay_000000000000_000000000500.rows",
    "replay_000000000500_000000000505.rows",
]


def test_the_files_are_those(saved):
    assert sorted(os.listdir(saved)) == sorted(FILES)
    load_all(saved)
    verify(saved)


@pytest.mark.parametrize("load", [load_all, verify])
@pytest.mark.parametrize("file", FILES)
def test_one_flipped_bit_anywhere_is_refused_by_name(saved, load, file):
    content = (saved / file).read_bytes()
    for place in np.linspace(0, len(content) - 1, 40).astype(int):
        flipped = bytearray(content)
        flipped[place] ^= 1
        os.remove(saved / file)  # not through the link
        (saved / file).write_bytes(flipped)
        if file == "meta.json" and b'"schema": 2' in flipped:
            continue  # says another version, which is as good
        refused(load, saved, "checksum|is not what was saved", file)


@pytest.mark.parametrize("load", [load_all, verify])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused_by_name(saved, load, file, share):
    content = (saved / file).read_bytes()
    (saved / file).write_bytes(content[: int(share * len(content))])

    refused(load, saved, "bytes of the|is not what was saved", file)


@pytest.mark.parametrize("load", [load_all, verify])
@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_missing_is_refused_by_name(saved, load, file):
    (saved / file).unlink()

    refused(load, saved, "No such file", file)


def test_a_directory_that_is_missing_is_refused_by_name(tmp_path):
    refused(load_all, tmp_path / "step_000000000050", "No such file")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"', "{}", "\xff"])
def test_a_meta_file_that_says_nothing_is_refused(saved, text):
    (saved / "meta.json").write_bytes(text.encode("latin-1"))

    refused(load_all, saved, "is not what was saved", "meta.json")


def test_a_state_that_torch_cannot_read_is_refused_though_its_checksum_agrees(run, monkeypatch):
    monkeypatch.setattr(write.torch, "save", lambda state, sink: sink.write(b"not a state"))
    path = run.advance().save()

    refused(load_checkpoint, path, "state.pt")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run by a checkpoint"),)

    checkpoints = Checkpoints(tmp_path, keep=0)
    checkpoints.begin(40, {"learner": Bomb()}, {}, rows=[(0, 0)])

    refused(load_checkpoint, checkpoints.wait(), "weights_only|Weights only", "state.pt")
    assert not (tmp_path / "run by a checkpoint").exists()


def test_another_schema_is_refused(run, monkeypatch):
    monkeypatch.setattr(write, "SCHEMA", 5)
    path = run.advance().save()

    refused(load_all, path, r"another version of unilab \(schema 5; this one reads schema 4\)")


def test_a_checkpoint_of_the_first_schema_is_refused(tmp_path):

    torch.save({"schema": 1, **state_of(40)}, tmp_path / "state.pt")
    (tmp_path / "meta.json").write_text(json.dumps({"schema": 1, "env_steps": 40, "sha256": "1234"}))

    refused(load_checkpoint, tmp_path, r"schema 1; this one reads schema 4")
    refused(verify, tmp_path, "schema 1")


# ------------------------------------------------------------ what does not fit


def test_a_ring_that_is_too_small_is_refused(saved):
    refused(lambda path: load_replay(path, [Ring(504, LAYOUT)]), saved, "505 transitions; replay.buffer_size=504")
    load_replay(saved, [Ring(505, LAYOUT)])


def test_rows_of_another_env_are_refused(saved):
    ring = Ring(1000, RowLayout(obs_dim=3, action_dim=1))

    refused(lambda path: load_replay(path, [ring]), saved, "rows of 8 numbers and this run's have 10")


def test_a_checkpoint_without_a_replay_is_refused_for_one(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=0)
    checkpoints.begin(40, state_of(40), {}, rows=[(0, 0)])

    refused(lambda path: load_replay(path, [Ring(10, LAYOUT)]), checkpoints.wait(), "it holds no replay", "meta.json")


def test_segments_with_a_gap_are_refused(run, monkeypatch):
    run.advance(100).save()
    known = run.store._known
    path = run.advance().save()
    about = meta.read_meta(path)
    del about["files"][known.segments[0][0].name], about["sha256"]
    (path / "meta.json").write_bytes(meta.encode_meta(about))

    refused(lambda path: load_replay(path, [Ring(1000, LAYOUT)]), path, r"do not hold rows \[0, 505\)", "meta.json")


def test_a_larger_ring_takes_the_rows_too(saved, run):
    ring = Ring(1777, LAYOUT)
    load_replay(saved, [ring])

    run.tape.holds(ring, 0, 505)


def test_a_copy_without_one_segment_is_refused(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "copy")
    segment_files(tmp_path / "copy")[1].unlink()

    refused(verify, tmp_path / "copy", "No such file", segment_files(saved)[1].name)


# ------------------------------------------------------------ the replay of another run


@pytest.mark.parametrize("wanted", [1, 7, 45])
def test_a_run_may_start_with_the_newest_rows_of_another_under_negative_numbers(tmp_path, wanted):
    teacher = Run(tmp_path, capacity=50, chunk=5)
    path = teacher.advance(3).save() and teacher.advance(20).save()  # 115 rows: the ring has wrapped
    assert preloadable(path, teacher.tape.ring.layout.width) == 45
    ring = Ring(60, teacher.tape.ring.layout)
    preload(path, [ring], [wanted])

    assert (ring.oldest, ring.cursor) == (-wanted, 0)
    mine = np.concatenate(list(ring.read(-wanted, 0)))
    theirs = np.concatenate(list(teacher.tape.ring.read(115 - wanted, 115)))
    assert mine.tolist() == theirs.tolist()
    assert set(ring.versions(-wanted, 0).tolist()) == {RANDOM_POLICY}
    ring.free()


def test_the_replay_of_an_env_with_other_spaces_is_refused(tmp_path):
    path = Run(tmp_path).advance().save()

    with pytest.raises(ConfigError, match="its env has other spaces"):
        preloadable(path, 99)

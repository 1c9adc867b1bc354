"""A checkpoint is whole or not there; one that was spoilt is refused by name."""

import json
import os

import pytest
import torch

from unilab import checkpoint
from unilab.checkpoint import Checkpoints, list_checkpoints, load_checkpoint
from unilab.errors import ConfigError


def state_of(step):
    """Every value says the step."""
    return {
        "learner": {"w": torch.full((1000,), float(step)), "count": torch.tensor(step)},
        "env_steps": step,
    }


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "run" / "checkpoints", keep=3)


@pytest.fixture
def directory(checkpoints):
    return checkpoints.directory


def save(checkpoints, step):
    return checkpoints.save(step, state_of(step), {"tick": step // 10})


def step_in(path):
    state = load_checkpoint(path)
    assert (state["learner"]["w"] == state["env_steps"]).all()
    return state["env_steps"]


@pytest.fixture
def dying(monkeypatch):
    """From now on a save is killed after half of the bytes."""

    class KilledError(BaseException):
        pass

    def save_half(state, file):
        file.write(b"PK half of a file")
        raise KilledError

    def arm():
        monkeypatch.setattr(checkpoint.torch, "save", save_half)
        return KilledError

    yield arm
    monkeypatch.undo()


def test_what_is_saved_is_what_is_loaded(checkpoints):
    path = checkpoints.save(40, state_of(40), {})
    state = load_checkpoint(path)

    assert path.name == "step_000000000040"
    assert torch.equal(state["learner"]["w"], torch.full((1000,), 40.0))
    assert state["learner"]["count"].item() == 40
    assert state["env_steps"] == 40


def test_people_find_what_it_is_in_json(checkpoints):
    path = checkpoints.save(40, state_of(40), {"tick": 4, "env": "unilab/Toy-v0"})
    meta = json.loads((path / "meta.json").read_text())

    assert (meta["schema"], meta["env_steps"], meta["tick"], meta["env"]) == (1, 40, 4, "unilab/Toy-v0")


def test_checkpoints_are_listed_oldest_first_by_env_steps(checkpoints, directory):
    for step in (1000, 999, 20_000):
        save(checkpoints, step)

    assert [step_in(path) for path in list_checkpoints(directory)] == [999, 1000, 20_000]


def test_the_newest_are_kept(checkpoints, directory):
    for step in range(10, 70, 10):
        save(checkpoints, step)

    assert [step_in(path) for path in list_checkpoints(directory)] == [40, 50, 60]


def test_keep_0_keeps_all(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=0)
    for step in range(10, 70, 10):
        save(checkpoints, step)

    assert len(list_checkpoints(tmp_path)) == 6


def test_a_save_of_the_same_step_replaces_it(checkpoints, directory):
    save(checkpoints, 40)
    checkpoints.save(40, state_of(41), {})

    assert [step_in(path) for path in list_checkpoints(directory)] == [41]
    assert os.listdir(directory) == ["step_000000000040"]


def test_a_save_that_is_killed_leaves_the_one_before(checkpoints, directory, dying):
    save(checkpoints, 40)
    killed = dying()
    with pytest.raises(killed):
        save(checkpoints, 50)

    assert [step_in(path) for path in list_checkpoints(directory)] == [40]


def test_a_second_save_of_a_step_that_is_killed_leaves_the_first(checkpoints, directory, dying):
    save(checkpoints, 40)
    killed = dying()
    with pytest.raises(killed):
        save(checkpoints, 40)

    assert [step_in(path) for path in list_checkpoints(directory)] == [40]


def test_a_draft_is_never_listed_and_the_next_save_removes_it(checkpoints, directory, dying, monkeypatch):
    save(checkpoints, 40)
    killed = dying()
    with pytest.raises(killed):
        save(checkpoints, 50)
    assert len(os.listdir(directory)) == 2
    monkeypatch.undo()

    save(checkpoints, 60)

    assert sorted(os.listdir(directory)) == ["step_000000000040", "step_000000000060"]


def test_nothing_is_renamed_before_it_is_on_disk(checkpoints, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}").rpartition("/")[2].partition(".")[0] or "draft")
        fsync(descriptor)

    def spy_replace(source, target):
        replace(source, target)
        events.append("rename")

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    save(checkpoints, 40)

    assert events == ["state", "meta", "draft", "rename", "checkpoints"]


@pytest.mark.parametrize("moment", [1, 2])
def test_a_step_is_replaced_by_renames_alone(checkpoints, directory, monkeypatch, moment):
    """Killed before either rename, one whole checkpoint of the step, or the one of another step, is there."""
    save(checkpoints, 30)
    save(checkpoints, 40)
    replace, renames = os.replace, []

    def killed_before(source, target):
        renames.append(target)
        if len(renames) == moment:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed_before)
    with pytest.raises(KeyboardInterrupt):
        save(checkpoints, 40)
    monkeypatch.undo()

    assert [step_in(path) for path in list_checkpoints(directory)] == [[30, 40], [30]][moment - 1]
    save(checkpoints, 40)  # the leftovers are in nobody's way
    assert [step_in(path) for path in list_checkpoints(directory)] == [30, 40]
    assert len(os.listdir(directory)) == 2


def test_strangers_in_the_directory_are_not_listed(checkpoints, directory):
    save(checkpoints, 40)
    (directory / "step_000000000050").mkdir()  # without a state
    (directory / "step_000000000060").write_text("a file")
    (directory / "notes.txt").write_text("")

    assert [path.name for path in list_checkpoints(directory)] == ["step_000000000040"]


# ------------------------------------------------------------ spoilt files


@pytest.fixture
def saved(checkpoints):
    return save(checkpoints, 40)


def refused(path, why):
    with pytest.raises(ConfigError, match=why) as caught:
        load_checkpoint(path)
    assert str(path / "state.pt") in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused_by_name(saved, share):
    content = (saved / "state.pt").read_bytes()
    (saved / "state.pt").write_bytes(content[: int(share * len(content))])

    refused(saved, "is not a readable checkpoint")


def test_one_flipped_bit_among_the_weights_is_refused(saved):
    content = bytearray((saved / "state.pt").read_bytes())
    place = content.find(b"\x00\x00\x20\x42" * 8)  # 40.0, many times
    assert place > 0
    content[place + 2] ^= 1
    (saved / "state.pt").write_bytes(bytes(content))

    refused(saved, "checksum")


def test_garbage_is_refused_by_name(saved):
    (saved / "state.pt").write_bytes(os.urandom(1000))

    refused(saved, "is not a readable checkpoint")


def test_a_checkpoint_that_is_not_there_is_refused_by_name(tmp_path):
    refused(tmp_path / "step_000000000050", "is not a readable checkpoint")


def test_a_checkpoint_without_its_meta_file_is_refused(saved):
    (saved / "meta.json").unlink()

    refused(saved, r"is not a readable checkpoint.*meta\.json")


def test_code_in_a_checkpoint_is_not_run(checkpoints, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run by a checkpoint"),)

    path = checkpoints.save(40, {"learner": Bomb()}, {})

    refused(path, "weights_only|Weights only")
    assert not (tmp_path / "run by a checkpoint").exists()


def test_another_schema_is_refused(checkpoints, monkeypatch):
    monkeypatch.setattr(checkpoint, "SCHEMA", 2)
    path = save(checkpoints, 40)
    monkeypatch.undo()

    refused(path, r"is not a checkpoint of this version \(schema 1\)")


def test_a_gpu_state_is_loaded_on_the_cpu(checkpoints):
    state = load_checkpoint(save(checkpoints, 40))

    assert state["learner"]["w"].device.type == "cpu"

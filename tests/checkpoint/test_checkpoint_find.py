"""What a user names leads to the newest checkpoint that is whole, or to one line that says why not."""

import io
import os

import pytest
import torch
from run_states import Run, segment_files, state_of

from unilab.checkpoint import find_checkpoint, list_checkpoints
from unilab.errors import ConfigError


@pytest.fixture
def folder(tmp_path):
    """A run directory with checkpoints of 20, 40 and 60 env steps that share no segment."""
    folder = tmp_path / "run"
    for chunks in (4, 8, 12):
        Run(folder / "checkpoints", keep=0).advance(chunks).save()
    (folder / "meta.json").write_text("{}")  # of the run
    return folder


def newest(folder):
    return list_checkpoints(folder / "checkpoints")[-1]


@pytest.mark.parametrize(
    "part", ["", "checkpoints", "checkpoints/step_000000000060", "checkpoints/step_000000000060/state.pt"]
)
def test_a_run_or_any_part_of_it_leads_to_the_newest(folder, part):
    assert find_checkpoint(folder / part) == (newest(folder), [])


def test_an_older_one_is_found_by_its_name(folder):
    older = folder / "checkpoints/step_000000000020"

    assert find_checkpoint(older).path == find_checkpoint(older / "state.pt").path == older


def spoil(file):
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("pattern", ["state.pt", "meta.json", "*.rows"])
def test_a_spoilt_one_is_passed_over_with_a_note(folder, pattern):
    sick, good = newest(folder), folder / "checkpoints/step_000000000040"
    (file,) = sick.glob(pattern)
    spoil(file)
    found = find_checkpoint(folder)

    assert found.path == good
    ((path, reason),) = found.skipped
    assert path == sick
    assert str(file) in reason


def test_a_replay_that_is_spoilt_does_not_matter_where_none_is_wanted(folder):
    spoil(segment_files(newest(folder))[0])

    assert find_checkpoint(folder, replay=False) == (newest(folder), [])


def refused(where, *words):
    with pytest.raises(ConfigError) as caught:
        find_checkpoint(where)
    assert caught.value.exit_code == 2
    for word in map(str, words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["state.pt", "meta.json", "*.rows"])
def test_a_spoilt_one_that_is_named_is_refused_by_the_name_of_the_file(folder, pattern):
    (file,) = newest(folder).glob(pattern)
    spoil(file)

    refused(newest(folder), file)
    refused(newest(folder) / "state.pt", file)


def test_a_run_with_spoilt_ones_only_is_refused_with_each_reason(folder):
    for path in list_checkpoints(folder / "checkpoints"):
        spoil(path / "state.pt")

    refused(
        folder, "holds no valid checkpoint", *(path / "state.pt" for path in list_checkpoints(folder / "checkpoints"))
    )


def test_a_run_without_checkpoints_is_refused(tmp_path):
    (tmp_path / "checkpoints").mkdir()

    refused(tmp_path, tmp_path / "checkpoints", "holds no checkpoint")
    refused(tmp_path / "checkpoints", "holds no checkpoint")


def test_what_does_not_exist_is_refused(tmp_path):
    refused(tmp_path / "nowhere", tmp_path / "nowhere", "does not exist")


def whole_file():
    stream = io.BytesIO()
    torch.save(state_of(40), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("empty.pt", b"", "it is empty"),
        ("first10.pt", whole_file()[:10], "cut short"),
        ("half.pt", whole_file()[: len(whole_file()) // 2], "cut short"),
        ("less5.pt", whole_file()[:-5], "cut short"),
        ("text.pt", b"this is not a checkpoint\n" * 50, "not a file that torch wrote"),
        ("whole.pt", whole_file(), "a checkpoint is a directory"),
        ("state.pt", whole_file(), "a checkpoint is a directory"),
    ],
)
def test_a_file_of_its_own_is_refused_by_what_it_is(tmp_path, name, content, kind):
    (tmp_path / name).write_bytes(content)

    refused(tmp_path / name, tmp_path / name, kind)


def test_drafts_are_never_found(folder):
    checkpoints = folder / "checkpoints"
    os.rename(newest(folder), checkpoints / ".step_000000000060.draft")

    assert find_checkpoint(folder) == (checkpoints / "step_000000000040", [])


def test_one_whose_replacement_was_killed_between_two_renames_is_found(folder):
    checkpoints = folder / "checkpoints"
    os.rename(newest(folder), checkpoints / ".step_000000000060.old")

    assert find_checkpoint(folder) == (checkpoints / ".step_000000000060.old", [])

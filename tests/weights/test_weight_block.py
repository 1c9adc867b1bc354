"""Snapshots through shared memory: whole or not at all, whoever is killed, in whatever order stores are seen.

Version v publishes float(v) in every value, so that a snapshot says which it is and whether it is one.
"""

import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from unilab.errors import BlockFreed, UnilabError
from unilab.weights import FlatState, Manifest, WeightBlock, WeightReader, WeightWriter
from unilab.weights.block import checksum

SEQUENCE, VERSION, CHECKSUM = 0, 1, 2


class Net(nn.Module):
    def __init__(self, size=1000):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))


class Side:
    """A module, its flat state and the writer or reader on it."""

    def __init__(self, block, kind):
        self.net = Net(next(entry.shape[0] for entry in block.manifest.entries if entry.name == "weight"))
        self.flat = FlatState(self.net)
        self.end = kind(block, self.flat)

    def publish(self, version):
        with torch.no_grad():
            self.net.weight.fill_(version)
            self.net.count.fill_(version)
        self.end.publish(version)

    def values(self):
        """All distinct values that the module holds."""
        return {*self.net.weight.tolist(), self.net.count.item()}


@pytest.fixture
def block():
    block = WeightBlock(Manifest.of(Net()))
    yield block
    block.free()


@pytest.fixture
def writer(block):
    return Side(block, WeightWriter)


@pytest.fixture
def reader(block):
    return Side(block, WeightReader)


def slot_of(block, version):
    (found,) = np.flatnonzero(block.shared.slots[:, VERSION] == version)
    return int(found)


def die_while_writing(block, index, version):
    """What a writer leaves that was killed in the middle of ``version``."""
    block.shared.slots[index, SEQUENCE] += 1
    payload = block.shared.payload[index]
    payload[: len(payload) // 2] = np.full(len(payload) // 8, float(version), np.float32).view(np.uint8)


# ------------------------------------------------------------ the way it should go


def test_what_is_published_is_what_is_fetched(writer, reader):
    with torch.no_grad():
        writer.net.weight.copy_(torch.arange(1000) / 7)
        writer.net.count.fill_(2**24 + 1)
    writer.end.publish(1)

    assert reader.end.fetch(1) == 1
    assert torch.equal(reader.net.weight, writer.net.weight)
    assert reader.net.count.item() == 2**24 + 1


def test_a_fetched_snapshot_does_not_change_with_the_source(writer, reader):
    writer.publish(1)
    reader.end.fetch(1)
    with torch.no_grad():
        writer.net.weight.fill_(99)

    assert reader.values() == {1}


def test_nothing_is_published_at_first(block, reader):
    assert block.latest == -1
    assert reader.end.version == -1
    assert reader.end.fetch_if_newer() == -1
    with pytest.raises(UnilabError, match="weight version 0 is not in the block; the newest is -1"):
        reader.end.fetch(0)


def test_version_0_counts_as_published(writer, reader):
    writer.publish(0)

    assert reader.end.fetch_if_newer() == 0
    assert reader.values() == {0}


def test_the_two_newest_versions_can_be_fetched_exactly(writer, reader):
    for version in range(6):
        writer.publish(version)
        for wanted in (version, version - 1) if version else (version,):
            assert reader.end.fetch(wanted) == wanted
            assert reader.values() == {wanted}


def test_the_two_newest_are_kept_whatever_the_step_between_versions(block, writer, reader):
    for before, version in [(None, 0), (0, 2), (2, 4), (4, 7), (7, 9), (9, 10)]:
        writer.publish(version)
        for wanted in {before, version} - {None}:
            assert reader.end.fetch(wanted) == wanted
            assert reader.values() == {wanted}


def test_a_version_that_is_gone_or_yet_to_come_is_refused(writer, reader):
    for version in range(4):
        writer.publish(version)

    for wanted in (0, 1, 4):
        with pytest.raises(UnilabError, match=f"version {wanted} is not in the block; the newest is 3 and 2 are"):
            reader.end.fetch(wanted)
    assert reader.end.fetch(2) == 2


def test_the_newest_is_fetched_once(writer, reader):
    writer.publish(1)
    writer.publish(2)

    assert reader.end.fetch_if_newer() == 2
    assert reader.values() == {2}
    reader.net.weight.data.fill_(-1)  # would be overwritten by another fetch
    assert reader.end.fetch_if_newer() == 2
    assert reader.end.fetch(2) == 2
    assert reader.values() == {-1, 2}


def test_fetching_an_older_version_and_then_the_newest_works(writer, reader):
    writer.publish(1)
    writer.publish(2)
    reader.end.fetch(2)

    assert reader.end.fetch(1) == 1
    assert reader.values() == {1}
    assert reader.end.fetch_if_newer() == 2
    assert reader.values() == {2}


def test_a_version_must_grow(block, writer):
    writer.publish(3)

    for version in (3, 2, -1):
        with pytest.raises(ValueError, match=f"version {version} does not follow 3"):
            writer.end.publish(version)
    assert block.latest == 3


def test_readers_do_not_disturb_one_another(block, writer):
    readers = [Side(block, WeightReader) for _ in range(3)]
    writer.publish(1)
    readers[0].end.fetch(1)
    writer.publish(2)
    readers[1].end.fetch(2)
    readers[2].end.fetch(1)

    assert [reader.values() for reader in readers] == [{1}, {2}, {1}]


# ------------------------------------------------------------ attaching


def test_a_reader_with_another_module_is_refused_and_told_the_difference(block):
    class Other(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("extra", torch.zeros(2))

    with pytest.raises(UnilabError, match=r"differ in \[\('extra', 'torch.float32', \(2,\)\)\]"):
        WeightReader(block, FlatState(Other()))
    with pytest.raises(UnilabError, match="extra"):
        WeightWriter(block, FlatState(Other()))


def test_a_reader_with_another_shape_is_told_both(block):
    with pytest.raises(UnilabError) as caught:
        WeightReader(block, FlatState(Net(size=1001)))

    assert "('weight', 'torch.float32', (1000,))" in str(caught.value)
    assert "('weight', 'torch.float32', (1001,))" in str(caught.value)
    assert "count" not in str(caught.value)


def test_entries_in_another_order_are_refused_in_words():
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    block = WeightBlock(Manifest.of(nn.ModuleDict({"a": first, "b": second})))

    with pytest.raises(UnilabError, match="order"):
        WeightReader(block, FlatState(nn.ModuleDict({"b": second, "a": first})))
    block.free()


def test_memory_that_is_no_weight_block_is_refused(block):
    block.shared.header[0] = 0

    with pytest.raises(UnilabError, match="does not hold weights"):
        WeightReader(block, FlatState(Net()))


def test_the_header_is_64_bytes_and_payloads_are_aligned(block):
    shared = block.shared

    assert shared.header.nbytes == 64
    assert shared.slots[0].nbytes == 64  # one cache line a slot
    assert shared.payload.shape == (2, block.manifest.nbytes)
    for array in (shared.header, shared.slots[0], shared.slots[1], shared.payload[0], shared.payload[1]):
        assert array.ctypes.data % 64 == 0


def test_a_freed_block_says_so(block, writer, reader):
    block.free()

    for use in (lambda: writer.end.publish(1), lambda: reader.end.fetch(1), reader.end.fetch_if_newer):
        with pytest.raises(BlockFreed, match="weights"):
            use()


# ------------------------------------------------------------ the way it should not go


def test_a_writer_killed_while_writing_leaves_the_snapshot_before(block, writer, reader):
    writer.publish(1)
    writer.publish(2)
    die_while_writing(block, slot_of(block, 1), 3)

    assert reader.end.fetch_if_newer() == 2
    assert reader.values() == {2}


def test_a_half_written_snapshot_is_never_handed_out(block, writer, reader):
    writer.publish(1)
    writer.publish(2)
    die_while_writing(block, slot_of(block, 1), 3)

    for wanted in (1, 3):
        with pytest.raises(UnilabError, match=f"version {wanted} is not in the block"):
            reader.end.fetch(wanted)
    assert reader.end.fetch(2) == 2
    assert reader.values() == {2}


def test_the_first_publication_cut_short_is_nothing_published(block, reader):
    die_while_writing(block, 0, 0)

    assert reader.end.fetch_if_newer() == -1
    with pytest.raises(UnilabError, match="version 0 is not in the block"):
        reader.end.fetch(0)


def test_another_writer_can_go_on_where_one_was_killed(block, writer, reader):
    writer.publish(1)
    writer.publish(2)
    die_while_writing(block, slot_of(block, 1), 3)

    successor = Side(block, WeightWriter)
    successor.publish(3)

    assert reader.end.fetch(3) == 3
    assert reader.values() == {3}
    assert reader.end.fetch(2) == 2


def tear(block, version):
    """Bytes of another version in a slot that calls itself whole: stores seen in another order."""
    payload = block.shared.payload[slot_of(block, version)]
    payload[: len(payload) // 2].view(np.float32)[:] = version + 1


def test_the_checksum_catches_a_torn_copy_that_the_sequence_does_not(block, writer, reader):
    writer.publish(1)
    tear(block, 1)

    with pytest.raises(UnilabError):
        reader.end.fetch(1)
    with pytest.raises(UnilabError, match="no whole snapshot"):
        reader.end.fetch_if_newer()
    assert reader.end.version == -1


@pytest.mark.parametrize("how", ["fetch", "fetch_if_newer"])
def test_a_reader_tries_again_until_the_late_stores_are_there(block, writer, reader, how):
    writer.publish(1)
    whole = block.shared.payload[slot_of(block, 1)].copy()
    tear(block, 1)
    copies, copy = [], reader.end._copy

    def copy_late(index):
        copies.append(index)
        if len(copies) == 4:
            block.shared.payload[index][:] = whole
        return copy(index)

    reader.end._copy = copy_late

    version = reader.end.fetch(1) if how == "fetch" else reader.end.fetch_if_newer()

    assert version == 1
    assert reader.values() == {1}
    assert len(copies) == 4


def test_a_slot_that_is_rewritten_during_the_copy_is_not_handed_out(block, writer, reader, monkeypatch):
    writer.publish(1)
    writer.publish(2)
    copyto, times = np.copyto, []

    def copy_slowly(target, source):
        copyto(target, source)
        if not times:
            times.append(1)
            writer.publish(3)  # goes into the slot that is being copied
            writer.publish(4)

    monkeypatch.setattr("unilab.weights.block.np.copyto", copy_slowly)
    with pytest.raises(UnilabError, match="version 1 is not in the block; the newest is 4"):
        reader.end.fetch(1)

    assert reader.end.fetch_if_newer() == 4
    assert reader.values() == {4}


def test_a_slot_that_is_rewritten_just_before_the_copy_is_not_handed_out_under_the_old_version(writer, reader):
    writer.publish(1)
    writer.publish(2)
    copy = reader.end._copy

    def copy_too_late(index):
        reader.end._copy = copy
        writer.publish(3)  # over version 1, whose slot was found already
        return copy(index)

    reader.end._copy = copy_too_late
    with pytest.raises(UnilabError, match="version 1 is not in the block; the newest is 3"):
        reader.end.fetch(1)
    assert reader.end.version == -1


def test_after_a_failed_fetch_the_reader_does_not_claim_to_hold_anything(block, writer, reader):
    writer.publish(1)
    reader.end.fetch(1)
    writer.publish(2)
    tear(block, 2)
    with pytest.raises(UnilabError):
        reader.end.fetch(2)

    assert reader.end.version == -1
    assert reader.end.fetch(1) == 1  # read again, not assumed to be there
    assert reader.values() == {1}


def test_the_checksum_sees_every_bit_and_wraps_around():
    payload = np.zeros(128, np.uint8)
    assert checksum(payload) == 0

    seen = set()
    for bit in range(8 * 128):
        payload[bit // 8] ^= 1 << bit % 8
        seen.add(checksum(payload))
        payload[bit // 8] ^= 1 << bit % 8
    assert 0 not in seen
    assert len(seen) == 64  # one per bit of a word: two words of the same difference could cancel only by design

    payload.view(np.int64)[:2] = 2**63 - 1, 1
    assert checksum(payload) == -(2**63)  # 2**63 - 1 + 1


def judge(snapshots):
    """Case a26: complaints about (version, smallest value, largest value) in order."""
    bad, last = [], -1
    for i, (version, low, high) in enumerate(snapshots):
        if low != high:
            bad.append((i, "torn"))
        elif low != version:
            bad.append((i, "label"))
        if version < last:
            bad.append((i, "went back"))
        last = max(last, version)
    return bad


def test_the_judge_sees_what_is_wrong():
    assert judge([(1, 1, 1), (2, 2, 2)]) == []
    assert judge([(2, 2, 3), (4, 5, 5), (3, 3, 3)]) == [(0, "torn"), (1, "label"), (2, "went back")]


class InPieces:
    """numpy with copies in pieces, between which another thread comes in; readers are the slow ones."""

    def __getattr__(self, name):
        return getattr(np, name)

    def copyto(self, target, source):
        pieces = 2 if threading.current_thread() is threading.main_thread() else 16
        ends = [len(target) * piece // pieces for piece in range(pieces + 1)]
        for start, stop in pairwise(ends):
            np.copyto(target[start:stop], source[start:stop])
            time.sleep(0)  # lets go of the GIL


def copy_carelessly(reader, index):
    """A fetch that believes what it sees."""
    version = int(reader._block.shared.slots[index, VERSION])
    InPieces().copyto(reader._target, reader._block.shared.payload[index])
    return version


def race(last):
    """Complaints of two readers in threads beside a writer that publishes as fast as it can, up to ``last``."""
    block = WeightBlock(Manifest.of(Net(10_000)))
    writer, readers = Side(block, WeightWriter), [Side(block, WeightReader) for _ in range(2)]
    snapshots, failed = [[] for _ in readers], []

    def read(reader, seen):
        deadline = time.monotonic() + 30
        try:
            while not seen or seen[-1][0] < last:
                assert time.monotonic() < deadline
                if reader.end.fetch_if_newer() >= 0:
                    weight = reader.net.weight
                    seen.append((reader.end.version, weight.min().item(), weight.max().item()))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=pair) for pair in zip(readers, snapshots, strict=True)]
    for thread in threads:
        thread.start()
    for version in range(last + 1):
        writer.publish(version)
    for thread in threads:
        thread.join()
    block.free()

    assert failed == []
    assert [seen[-1][0] for seen in snapshots] == [last, last]
    return [complaint for seen in snapshots for complaint in judge(seen)]


@pytest.fixture
def switching_often(monkeypatch):
    """Copies in pieces, and threads that take turns every few microseconds."""
    monkeypatch.setattr("unilab.weights.block.np", InPieces())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching_often")
def test_readers_beside_a_fast_writer_see_only_whole_snapshots_and_the_last_one():
    assert race(last=300) == []


@pytest.mark.usefixtures("switching_often")
def test_without_the_checks_that_race_would_be_seen(monkeypatch):
    monkeypatch.setattr(WeightReader, "_copy", copy_carelessly)

    assert any(why == "torn" for _ in range(20) for _, why in race(last=300))


# ------------------------------------------------------------ continuing


def test_snapshots_that_are_put_back_can_be_fetched_and_followed(block, writer):
    for version in (3, 5, 8):
        writer.publish(version)
    saved = block.snapshots()
    writer.publish(9)  # a copy does not change
    again = WeightBlock(block.manifest)
    again.restore(saved)
    reader = Side(again, WeightReader)

    assert list(saved) == [5, 8]
    assert again.latest == 8
    for version in (8, 5):
        assert reader.end.fetch(version) == version
        assert reader.values() == {version}
    Side(again, WeightWriter).publish(9)
    assert reader.end.fetch(8) == 8
    assert reader.end.fetch_if_newer() == 9
    again.free()


def test_snapshots_of_another_size_are_refused(block):
    with pytest.raises(UnilabError, match="has 8 bytes"):
        block.restore({1: np.zeros(8, np.uint8)})

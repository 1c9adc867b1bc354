"""A block is nameless memory: it fits its views, cannot leak, and is loud once it is freed."""

import gc
import os

import numpy as np
import pytest

from unilab.errors import BlockFreed
from unilab.shm.segment import Block, receive_descriptor

BACKINGS = ["memfd", "unlinked_file"]


def named_memory():
    """Names in /dev/shm but for semaphores, which other programs make and remove all the time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=BACKINGS)
def backing(request):
    return request.param


@pytest.fixture
def block(backing):
    block = Block(4096, "sample", backing=backing)
    yield block
    block.free()


def test_fresh_memory_is_zero_and_holds_what_is_written(block):
    view = block.array(0, (1024,), "int32")
    assert not view.any()

    view[:] = np.arange(1024)

    assert block.array(0, (1024,), "int32").tolist() == list(range(1024))


def test_views_of_one_block_share_its_bytes(block):
    block.array(64, (3,), "float32")[:] = [1.0, 2.0, 3.0]

    assert block.array(64, (12,), "uint8").tobytes() == np.array([1, 2, 3], np.float32).tobytes()
    assert block.array(68, (1,), "float32")[0] == 2.0


def test_a_view_that_does_not_fit_is_refused(block):
    assert block.array(4092, (1,), "float32").shape == (1,)
    for offset, shape in [(4096, (1,)), (4094, (1,)), (0, (1025,)), (5000, (1,)), (-4, (1,))]:
        with pytest.raises(ValueError, match=r"buffer|offset"):
            block.array(offset, shape, "float32")


def test_a_freed_block_says_its_name_instead_of_crashing(block):
    block.free()

    with pytest.raises(BlockFreed, match="'sample' was used after it was freed"):
        block.array(0, (1,), "uint8")


def test_a_freed_block_is_not_sent_to_a_process(block):
    block.free()

    with pytest.raises(BlockFreed, match="'sample' was sent to a process after it was freed"):
        block.__reduce__()


def test_a_view_that_outlives_the_block_still_reads_and_writes_old_bytes(block):
    view = block.array(0, (1024,), "float32")
    view[:] = 7.0

    block.free()
    gc.collect()

    assert view.sum() == 7 * 1024
    view[:] = 8.0
    assert view[1023] == 8.0


def test_free_twice_is_fine_and_gives_every_descriptor_back(backing):
    before = open_descriptors()
    blocks = [Block(100, "sample", backing=backing) for _ in range(3)]
    assert open_descriptors() > before

    for block in blocks * 2:
        block.free()

    assert open_descriptors() == before


def test_the_last_view_of_a_freed_block_gives_the_mapping_back(backing):
    before = open_descriptors()
    block = Block(100, "sample", backing=backing)
    view = block.array(0, (100,), "uint8")
    block.free()

    del view
    gc.collect()

    assert open_descriptors() == before


def test_no_name_is_left_anywhere(backing, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = named_memory()

    block = Block(1 << 20, "sample", backing=backing)

    assert list(tmp_path.iterdir()) == []
    assert named_memory() <= before
    block.free()


def test_descriptors_do_not_reach_programs_that_an_env_starts(block):
    assert not os.get_inheritable(block._fd)


def test_a_received_descriptor_is_made_close_on_exec():
    class Handle:
        """Stands in for ``reduction.DupFd``, which arrives inheritable."""

        def detach(self):
            descriptor = os.dup(0)
            os.set_inheritable(descriptor, True)
            return descriptor

    descriptor = receive_descriptor(Handle())

    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_a_size_that_cannot_be_had_leaves_no_descriptor_open(backing):
    before = open_descriptors()

    with pytest.raises((OSError, OverflowError, ValueError)):
        Block(2**62, "too large", backing=backing)

    gc.collect()
    assert open_descriptors() == before

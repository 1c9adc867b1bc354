"""The CUDA copier on a real device: page-locked in place, slots never overwritten under a slow reader."""

import numpy as np
import pytest
import torch
from tagged_source import BATCH, LAYOUT, TaggedSource, fresh_host, rows_of, tags

from unilab.shm import Arrays, Bell, Field, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer import CudaCopier, Pipeline

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MANY_ROWS = 20_000  # 640 kB a slot: a copy takes some time


@pytest.fixture
def device():
    return torch.device("cuda")


@pytest.fixture
def shared():
    """Host slots as in a run: shared memory, not torch's."""
    arrays = Arrays([Field("host", (2, MANY_ROWS, LAYOUT.width), "float32")], "host slots")
    yield arrays
    arrays.free()


@pytest.fixture
def copier(shared, device):
    copier = CudaCopier(shared.host, device)
    yield copier
    copier.close()


def test_the_shared_slots_themselves_are_page_locked(shared, copier):
    assert copier.notice is None
    for slot in shared.host:
        view = torch.from_numpy(slot)
        assert view.data_ptr() == slot.ctypes.data
        assert view.is_pinned()


def test_values_that_the_host_writes_after_page_locking_arrive(shared, copier):
    for value in (1.0, 2.0):
        for slot in (0, 1):
            copier.wait_host_free(slot)
            shared.host[slot] = value + 10 * slot
            copier.submit(slot, MANY_ROWS)
            rows = copier.ready(slot, MANY_ROWS)
            assert rows.device.type == "cuda"
            assert (rows == value + 10 * slot).all().item()
            copier.consumed(slot)


def test_only_the_rows_of_the_batch_are_copied(shared, copier):
    shared.host[0] = 1.0
    copier.submit(0, MANY_ROWS)
    copier.wait_host_free(0)
    shared.host[0] = 2.0
    copier.submit(0, 10)

    rows = copier.ready(0, MANY_ROWS)
    assert (rows[:10] == 2).all().item()
    assert (rows[10:] == 1).all().item()


def slow(device):
    """Compute that keeps the current stream busy for some milliseconds."""
    square = torch.full((2048, 2048), 1e-4, device=device)
    for _ in range(20):
        square = square @ square
    return square


def test_a_slot_is_not_overwritten_while_a_slow_reader_still_needs_it(shared, copier, device):
    sums = []
    for tick in range(60):
        slot = tick % 2
        copier.wait_host_free(slot)
        shared.host[slot] = tick
        copier.submit(slot, MANY_ROWS)
        rows = copier.ready(slot, MANY_ROWS)
        slow(device)
        sums.append(torch.stack([rows.min(), rows.max()]))  # behind the slow compute
        copier.consumed(slot)
    seen = torch.stack(sums).tolist()

    assert seen == [[tick, tick] for tick in range(60)]


def test_a_pipeline_on_the_device_gives_the_rows_of_each_tick(device):
    host, bell, copier_bell = fresh_host(), Bell(), Bell()
    pipeline = Pipeline(
        TaggedSource(host),
        LAYOUT,
        len(host),
        CudaCopier(host, device),
        waiter=Waiter(bell),
        background=Waiter(copier_bell),
        trace=Tracer("learner"),
    )
    taken = []
    pipeline.prefetch(1)
    for tick in range(1, 301):
        batch = pipeline.take(tick)
        pipeline.prefetch(tick + 1)
        slow(device) if tick % 10 == 0 else None
        taken.append([minibatch.obs[:, 0] * 1 for minibatch in batch.split(BATCH)])
        pipeline.release(batch)
    seen = [torch.cat(parts).tolist() if parts else [] for parts in taken]
    pipeline.close()
    bell.close()
    copier_bell.close()

    assert seen == [tags(tick, rows_of(tick)).tolist() for tick in range(1, 301)]


def test_memory_that_is_page_locked_already_gives_a_notice_and_works_all_the_same(shared, copier, device):
    second = CudaCopier(shared.host, device)

    assert copier.notice is None
    assert "could not page-lock" in second.notice
    assert "CUDA error" in second.notice
    assert torch.ones(3, device=device).sum().item() == 3  # the failed call leaves no error behind
    shared.host[1] = 5.0
    second.submit(1, MANY_ROWS)
    assert (second.ready(1, MANY_ROWS) == 5).all().item()
    second.close()
    assert torch.from_numpy(shared.host[0]).is_pinned()  # not its to unlock


def test_close_unlocks_the_pages_and_may_come_twice(shared, device):
    for _ in range(3):  # locks again only if close has unlocked
        copier = CudaCopier(shared.host, device)
        assert copier.notice is None
        copier.submit(0, MANY_ROWS)
        copier.close()
        copier.close()
        assert not torch.from_numpy(shared.host[0]).is_pinned()


def test_a_host_slot_that_is_no_shared_memory_works_too(device):
    host = np.ones((2, 4, LAYOUT.width), np.float32)
    copier = CudaCopier(host, device)
    copier.submit(0, 4)

    assert (copier.ready(0, 4) == 1).all().item()
    copier.close()

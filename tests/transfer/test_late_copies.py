"""Batches stay right on a device that copies and computes late; each of the three waits is needed for it."""

import pytest
from late_device import ForgetsTheCopy, ForgetsTheHostSlot, ForgetsTheReader, LateDevice
from tagged_source import LAYOUT, TaggedSource, fresh_host, is_right

from unilab.shm import Bell, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer import Pipeline

SEEDS = range(5)


def mismatches(device_type, *, ticks, seed, threaded=False, in_thread=False, slots=2):
    """Ticks whose late compute saw rows of another tick, or rows that were not there yet."""
    wrong, done = [], []

    def read_late(batch, tick):
        done.append(tick)
        if not is_right(batch, tick):
            wrong.append(tick)

    host, bell, copier_bell = fresh_host(slots), Bell(), Bell()
    device = device_type(host, seed=seed, in_thread=in_thread)
    pipeline = Pipeline(
        TaggedSource(host),
        LAYOUT,
        slots,
        device,
        waiter=Waiter(bell),
        background=Waiter(copier_bell) if threaded else None,
        trace=Tracer("learner"),
    )
    pipeline.prefetch(1)
    for tick in range(1, ticks + 1):
        batch = pipeline.take(tick)
        if tick < ticks:
            pipeline.prefetch(tick + 1)
        device.compute(lambda batch=batch, tick=tick: read_late(batch, tick))
        pipeline.release(batch)
    pipeline.close()
    bell.close()
    copier_bell.close()

    assert done == list(range(1, ticks + 1))
    return wrong


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("threaded", [False, True], ids=["inline", "threaded"])
def test_no_batch_is_wrong_however_late_the_device_is(threaded, slots):
    for seed in SEEDS:
        assert mismatches(LateDevice, ticks=300, seed=seed, threaded=threaded, slots=slots) == []


@pytest.mark.parametrize("threaded", [False, True], ids=["inline", "threaded"])
def test_no_batch_is_wrong_beside_a_device_in_a_thread_of_its_own(threaded):
    assert mismatches(LateDevice, ticks=300, seed=0, threaded=threaded, in_thread=True) == []


@pytest.mark.parametrize("device", [ForgetsTheHostSlot, ForgetsTheReader, ForgetsTheCopy])
@pytest.mark.parametrize("threaded", [False, True], ids=["inline", "threaded"])
def test_without_any_one_of_the_waits_batches_do_come_out_wrong(device, threaded):
    wrong = [mismatches(device, ticks=300, seed=seed, threaded=threaded) for seed in SEEDS]

    # So the tests above can see it: with every seed, but for what real threads add to chance.
    assert any(wrong) if threaded else all(wrong)

"""Prefetch, take, release: the same batches whoever packs, misuse refused, no wait without an exit."""

import threading

import numpy as np
import pytest
from tagged_source import BATCH, LAYOUT, TaggedSource, fresh_host, is_right, tags

from unilab.errors import Stopped, WorkerDied
from unilab.replay import Ring, UniformSampler, pack
from unilab.shm import Bell, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer import CpuCopier, Pipeline


class Rig:
    """Bells, stop flag and pipelines of one test."""

    def __init__(self):
        self.bell, self.packer_bell = Bell(), Bell()
        self.stopped = threading.Event()
        self.trace = Tracer("learner")
        self.pipelines = []

    def pipeline(self, source, *, threaded, host=None, copier=None):
        host = fresh_host() if host is None else host
        pipeline = Pipeline(
            source,
            LAYOUT,
            host,
            copier or CpuCopier(host),
            waiter=Waiter(self.bell),
            packer=Waiter(self.packer_bell, self.stopped.is_set) if threaded else None,
            trace=self.trace,
        )
        self.pipelines.append(pipeline)
        return pipeline

    def stop(self):
        self.stopped.set()
        self.packer_bell.ring()

    def close(self):
        self.stop()
        for pipeline in self.pipelines:
            pipeline.close()
        self.bell.close()
        self.packer_bell.close()


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture(params=["inline", "threaded"])
def threaded(request):
    return request.param == "threaded"


@pytest.fixture
def pipeline(rig, threaded):
    return rig.pipeline(TaggedSource(), threaded=threaded)


# ------------------------------------------------------------ batches


def test_a_batch_has_the_rows_of_its_tick_and_says_what_they_are(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)

    assert (batch.tick, batch.packed.rows, batch.packed.watermark) == (1, 4, 1001)
    assert batch.packed.versions.tolist() == [1, 1]
    assert batch.rows.tolist() == [[100 + i] * LAYOUT.width for i in range(4)]


def test_batches_stay_right_for_hundreds_of_ticks_on_the_cpu(rig, threaded):
    source = TaggedSource()
    pipeline = rig.pipeline(source, threaded=threaded)
    pipeline.prefetch(1)
    for tick in range(1, 401):
        batch = pipeline.take(tick)
        pipeline.prefetch(tick + 1)  # packs beside what follows
        assert is_right(batch, tick)
        pipeline.release(batch)

    assert source.threads == ({"packer"} if threaded else {threading.current_thread().name})


def test_this_test_would_see_rows_that_are_read_after_their_release(rig):
    pipeline, late = rig.pipeline(TaggedSource(), threaded=False), []
    pipeline.prefetch(1)
    for tick in range(1, 11):
        batch = pipeline.take(tick)
        pipeline.prefetch(tick + 1)
        pipeline.release(batch)
        late.append(batch)

    assert not all(is_right(batch, tick) for tick, batch in enumerate(late, start=1))


class SampledSource:
    """The real thing: a ring, a sampler, domains that grow with the tick."""

    def __init__(self, ring):
        self._ring = ring
        self._sampler = UniformSampler(np.random.SeedSequence(5))

    def rows(self, tick):
        return BATCH * (tick % 3)

    def wait(self, tick, waiter):
        pass

    def pack(self, tick, out):
        return pack(self._ring, self._sampler, out, tick=tick, low=0, high=10 + tick)


class Step:
    def __init__(self, values):
        self.next_obs = {"obs": values + 0.5}
        self.reward = values[:, 0]
        self.terminated = self.truncated = np.zeros(len(values), np.bool_)


def test_inline_and_threaded_pipelines_give_the_same_bits(rig):
    ring = Ring(100, LAYOUT)
    values = np.arange(200, dtype=np.float32).reshape(100, 2)
    ring.append({"obs": values}, values[:, :1], Step(values), policy_version=3)
    taken = []
    for threaded in (False, True):
        pipeline, batches = rig.pipeline(SampledSource(ring), threaded=threaded), []
        pipeline.prefetch(1)
        for tick in range(1, 61):
            batch = pipeline.take(tick)
            pipeline.prefetch(tick + 1)
            batches.append((batch.packed.watermark, batch.rows.numpy().tobytes()))
            pipeline.release(batch)
        taken.append(batches)
    ring.free()

    assert taken[0] == taken[1]
    assert len(set(taken[0])) == 60


def test_a_batch_without_rows_goes_through_all_the_same(pipeline):
    pipeline.prefetch(3)
    batch = pipeline.take(3)

    assert batch.rows.shape == (0, LAYOUT.width)
    assert list(batch.split(BATCH)) == []
    pipeline.release(batch)


def test_the_rows_of_a_taken_batch_stay_while_the_next_is_packed(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    pipeline.prefetch(2)
    following = None
    pipeline._waiter.wait(lambda: not pipeline._thread or pipeline._thread._filled == 2, "the packer", 30)

    assert is_right(batch, 1)
    pipeline.release(batch)
    following = pipeline.take(2)
    assert is_right(following, 2)


def test_the_times_are_named_after_what_was_done(rig, threaded):
    pipeline = rig.pipeline(TaggedSource(), threaded=threaded)
    pipeline.prefetch(1)
    pipeline.take(1)

    expected = {"wait_batch", "pack", "copy"} | ({"wait_rows"} if threaded else set())
    assert set(rig.trace.take_totals()) == expected


# ------------------------------------------------------------ misuse


def test_a_batch_that_was_not_asked_for_is_refused(pipeline):
    with pytest.raises(ValueError, match="batch 1 was not prefetched"):
        pipeline.take(1)
    pipeline.prefetch(1)
    with pytest.raises(ValueError, match="batch 2 was not prefetched"):
        pipeline.take(2)
    assert is_right(pipeline.take(1), 1)


def test_a_batch_is_asked_for_once_and_in_order(pipeline):
    pipeline.prefetch(5)
    batch = pipeline.take(5)
    for tick in (5, 4, 0):
        with pytest.raises(ValueError, match=f"batch {tick} was asked for after batch 5"):
            pipeline.prefetch(tick)
    pipeline.release(batch)


def test_a_batch_is_not_asked_for_before_the_one_before_it_was_taken(pipeline):
    pipeline.prefetch(1)
    with pytest.raises(ValueError, match="batch 2 was asked for before batch 1 was taken"):
        pipeline.prefetch(2)

    assert is_right(pipeline.take(1), 1)


def test_a_slot_that_was_not_released_is_not_filled_again(pipeline):
    pipeline.prefetch(1)
    first = pipeline.take(1)
    pipeline.prefetch(2)
    second = pipeline.take(2)
    with pytest.raises(ValueError, match="batch 3 needs slot 1, which is in use"):
        pipeline.prefetch(3)

    pipeline.release(first)
    pipeline.prefetch(3)
    assert is_right(second, 2)
    assert is_right(pipeline.take(3), 3)


def test_a_batch_is_taken_once(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    with pytest.raises(ValueError, match="batch 1 was taken before"):
        pipeline.take(1)
    pipeline.release(batch)
    with pytest.raises(ValueError, match="batch 1 was taken before"):
        pipeline.take(1)


def test_a_batch_is_released_once(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    pipeline.release(batch)

    with pytest.raises(ValueError, match="batch 1 was released before"):
        pipeline.release(batch)


def test_an_old_batch_cannot_release_the_slot_of_a_newer_one(pipeline):
    pipeline.prefetch(1)
    old = pipeline.take(1)
    pipeline.release(old)
    pipeline.prefetch(3)
    batch = pipeline.take(3)  # the same slot
    with pytest.raises(ValueError, match="batch 1 was released before"):
        pipeline.release(old)

    assert batch.slot == old.slot
    with pytest.raises(ValueError, match="slot 1, which is in use"):
        pipeline.prefetch(5)


# ------------------------------------------------------------ errors and ends


class Failing(TaggedSource):
    def __init__(self, *, wait=None, pack=None):
        super().__init__()
        self._errors = wait, pack

    def wait(self, tick, waiter):
        if tick == 2 and self._errors[0]:
            raise self._errors[0]

    def pack(self, tick, out):
        if tick == 2 and self._errors[1]:
            raise self._errors[1]
        return super().pack(tick, out)


@pytest.mark.parametrize(
    "failing", [{"wait": WorkerDied("collector-0 has ended")}, {"pack": RuntimeError("no such row")}]
)
def test_what_goes_wrong_while_packing_is_raised_in_take(rig, threaded, failing):
    (error,) = failing.values()
    pipeline = rig.pipeline(Failing(**failing), threaded=threaded)
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    pipeline.prefetch(2)

    with pytest.raises(type(error), match=str(error)):
        pipeline.take(2)
    assert is_right(batch, 1)
    pipeline.close()


def test_an_error_in_the_packer_wakes_a_learner_that_waits_already(rig):
    waiting = threading.Event()

    class Source(TaggedSource):
        def wait(self, tick, waiter):
            assert waiting.wait(30)
            raise WorkerDied("collector-0 has ended")

    pipeline = rig.pipeline(Source(), threaded=True)
    pipeline.prefetch(1)
    stopped = pipeline._waiter._stopped
    pipeline._waiter._stopped = lambda: (waiting.set(), stopped())[1]  # looked at just before sleeping

    with pytest.raises(WorkerDied, match="collector-0 has ended"):
        pipeline.take(1)


class Starving(TaggedSource):
    """Rows that never come; tells when somebody waits for them."""

    def __init__(self):
        super().__init__()
        self.waiting = threading.Event()

    def wait(self, tick, waiter):
        def looked():
            self.waiting.set()
            return False

        waiter.wait(looked, f"chunk {tick}")


def test_close_ends_a_packer_that_waits_for_rows_at_once(rig):
    source = Starving()
    pipeline = rig.pipeline(source, threaded=True)
    pipeline.prefetch(1)
    assert source.waiting.wait(30)

    rig.stop()
    pipeline._thread.close(deadline_s=30)

    assert not pipeline._thread._thread.is_alive()
    with pytest.raises(Stopped, match="chunk 1"):
        pipeline.take(1)


def test_close_ends_an_idle_packer_without_any_stop(rig, pipeline):
    pipeline.prefetch(1)
    pipeline.take(1)
    pipeline.close()

    assert not pipeline._thread or not pipeline._thread._thread.is_alive()
    pipeline.close()


def test_close_gives_up_the_device_once_the_packer_has_ended(rig, threaded):
    class Copier(CpuCopier):
        def close(self):
            closed.append(pipeline._thread is not None and pipeline._thread._thread.is_alive())
            super().close()

    closed, host = [], fresh_host()
    pipeline = rig.pipeline(TaggedSource(), threaded=threaded, host=host, copier=Copier(host))
    pipeline.close()

    assert closed == [False]


def test_tags_are_what_the_tests_say():
    assert tags(7, 3).tolist() == [700, 701, 702]
    assert [TaggedSource().rows(tick) for tick in range(1, 9)] == [4, 8, 0, 0, 4, 8, 0, 0]

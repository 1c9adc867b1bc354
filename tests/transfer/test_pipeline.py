"""Prefetch, take, release: the same batches in either thread, misuse refused, no wait without an exit."""

import threading

import pytest
from tagged_source import BATCH, LAYOUT, TaggedSource, fresh_host, is_right, rows_of, tags

from unilab.errors import Stopped, WorkerDied
from unilab.shm import Bell, Waiter
from unilab.telemetry.trace import Tracer
from unilab.transfer import CpuCopier, Pipeline


class Rig:
    """Bells, stop flag and pipelines of one test."""

    def __init__(self):
        self.bell, self.copier_bell = Bell(), Bell()
        self.stopped = threading.Event()
        self.trace = Tracer("learner")
        self.pipelines = []

    def pipeline(self, source=None, *, threaded, copier=None):
        host = fresh_host()
        pipeline = Pipeline(
            (source or TaggedSource)(host),
            LAYOUT,
            len(host),
            (copier or CpuCopier)(host),
            waiter=Waiter(self.bell),
            background=Waiter(self.copier_bell, self.stopped.is_set) if threaded else None,
            trace=self.trace,
        )
        self.pipelines.append(pipeline)
        return pipeline

    def stop(self):
        self.stopped.set()
        self.copier_bell.ring()

    def close(self):
        self.stop()
        for pipeline in self.pipelines:
            pipeline.close()
        self.bell.close()
        self.copier_bell.close()


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
    return rig.pipeline(threaded=threaded)


# ------------------------------------------------------------ batches


def test_a_batch_has_the_rows_of_its_tick_and_says_what_they_are(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)

    assert (batch.tick, batch.packed.rows, batch.packed.watermark) == (1, 4, 1001)
    assert batch.packed.versions.tolist() == [1, 1]
    assert batch.rows.tolist() == [[100 + i] * LAYOUT.width for i in range(4)]


def test_batches_stay_right_for_hundreds_of_ticks_on_the_cpu(rig, threaded):
    pipeline = rig.pipeline(threaded=threaded)
    pipeline.prefetch(1)
    for tick in range(1, 401):
        batch = pipeline.take(tick)
        pipeline.prefetch(tick + 1)  # filled beside what follows
        assert is_right(batch, tick)
        pipeline.release(batch)

    assert pipeline._source.threads == ({"copier"} if threaded else {threading.current_thread().name})


def test_this_test_would_see_rows_that_are_read_after_their_release(rig):
    pipeline, late = rig.pipeline(threaded=False), []
    pipeline.prefetch(1)
    for tick in range(1, 11):
        batch = pipeline.take(tick)
        pipeline.prefetch(tick + 1)
        pipeline.release(batch)
        late.append(batch)

    assert not all(is_right(batch, tick) for tick, batch in enumerate(late, start=1))


def test_a_batch_without_rows_goes_through_all_the_same(pipeline):
    pipeline.prefetch(3)
    batch = pipeline.take(3)

    assert batch.rows.shape == (0, LAYOUT.width)
    assert list(batch.split(BATCH)) == []
    pipeline.release(batch)


def test_the_rows_of_a_taken_batch_stay_while_the_next_comes_in(pipeline):
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    pipeline.prefetch(2)
    following = None
    pipeline._waiter.wait(lambda: not pipeline._thread or pipeline._thread._filled == 2, "the copy thread", 30)

    assert is_right(batch, 1)
    pipeline.release(batch)
    following = pipeline.take(2)
    assert is_right(following, 2)


def test_the_times_are_named_after_what_was_done(rig, threaded):
    pipeline = rig.pipeline(threaded=threaded)
    pipeline.prefetch(1)
    pipeline.take(1)

    assert set(rig.trace.take_totals()) == {"prefetch", "wait_batch", "copy"}


class Watching(CpuCopier):
    """Notes when a host slot was waited for."""

    def __init__(self, host):
        super().__init__(host)
        self.freed = []

    def wait_host_free(self, slot):
        self.freed.append(slot)


def test_the_host_slot_is_free_before_prefetch_returns_so_that_a_grant_may_follow(rig, threaded):
    pipeline = rig.pipeline(Starving, threaded=threaded, copier=Watching)
    pipeline.prefetch(1)
    assert pipeline._copier.freed == [1]


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
    def ask(self, tick):
        pass

    def fetch(self, tick, waiter):
        if tick == 2:
            raise WorkerDied("collector-0 has ended")
        return super().fetch(tick, waiter)


def test_what_goes_wrong_in_the_source_is_raised_in_take(rig, threaded):
    pipeline = rig.pipeline(Failing, threaded=threaded)
    pipeline.prefetch(1)
    batch = pipeline.take(1)
    pipeline.prefetch(2)

    with pytest.raises(WorkerDied, match="collector-0 has ended"):
        pipeline.take(2)
    assert is_right(batch, 1)
    pipeline.close()


def test_a_batch_that_failed_can_be_taken_once_its_source_works_again(rig, threaded):
    class Mended(TaggedSource):
        tries = 0

        def ask(self, tick):
            pass

        def fetch(self, tick, waiter):
            self.tries += 1
            if tick == 2 and self.tries < 4:
                raise WorkerDied(f"try {self.tries}")
            return super().fetch(tick, waiter)

    pipeline = rig.pipeline(Mended, threaded=threaded)
    pipeline.prefetch(1)
    pipeline.release(pipeline.take(1))
    pipeline.prefetch(2)
    for number in (2, 3):
        with pytest.raises(WorkerDied, match=f"try {number}"):
            pipeline.take(2)

    assert is_right(pipeline.take(2), 2)


def test_an_error_in_the_copy_thread_wakes_a_learner_that_waits_already(rig):
    waiting = threading.Event()

    class Source(TaggedSource):
        def ask(self, tick):
            pass

        def fetch(self, tick, waiter):
            assert waiting.wait(30)
            raise WorkerDied("collector-0 has ended")

    pipeline = rig.pipeline(Source, threaded=True)
    pipeline.prefetch(1)
    stopped = pipeline._waiter._stopped
    pipeline._waiter._stopped = lambda: (waiting.set(), stopped())[1]  # looked at just before sleeping

    with pytest.raises(WorkerDied, match="collector-0 has ended"):
        pipeline.take(1)


class Starving(TaggedSource):
    """Rows that never come; tells when somebody waits for them."""

    def __init__(self, host):
        super().__init__(host)
        self.waiting = threading.Event()

    def ask(self, tick):
        pass

    def fetch(self, tick, waiter):
        def looked():
            self.waiting.set()
            return False

        waiter.wait(looked, f"chunk {tick}")


def test_close_ends_a_copy_thread_that_waits_for_rows_at_once(rig):
    pipeline = rig.pipeline(Starving, threaded=True)
    pipeline.prefetch(1)
    assert pipeline._source.waiting.wait(30)

    rig.stop()
    pipeline._thread.close(deadline_s=30)

    assert not pipeline._thread._thread.is_alive()
    with pytest.raises(Stopped, match="chunk 1"):
        pipeline.take(1)


def test_close_ends_an_idle_copy_thread_without_any_stop(rig, pipeline):
    pipeline.prefetch(1)
    pipeline.take(1)
    pipeline.close()

    assert not pipeline._thread or not pipeline._thread._thread.is_alive()
    pipeline.close()


def test_close_gives_up_the_device_once_the_copy_thread_has_ended(rig, threaded):
    class Copier(CpuCopier):
        def close(self):
            closed.append(pipeline._thread is not None and pipeline._thread._thread.is_alive())
            super().close()

    closed = []
    pipeline = rig.pipeline(threaded=threaded, copier=Copier)
    pipeline.close()

    assert closed == [False]


def test_tags_are_what_the_tests_say():
    assert tags(7, 3).tolist() == [700, 701, 702]
    assert [rows_of(tick) for tick in range(1, 9)] == [4, 8, 0, 0, 4, 8, 0, 0]

"""Means by hand; the tensors may change after they were added."""

import math
import time

import pytest
import torch

from unilab.telemetry.metrics import FOLD_EVERY, Metrics


def scalars(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def test_each_name_is_averaged_over_the_adds_that_carried_it():
    metrics = Metrics()
    metrics.add(scalars(critic_loss=1.0, actor_loss=10.0))
    metrics.add(scalars(critic_loss=2.0))
    metrics.add(scalars(critic_loss=6.0, actor_loss=20.0))

    assert metrics.drain() == {"critic_loss": 3.0, "actor_loss": 15.0}


def test_a_drain_starts_anew_and_an_empty_one_is_empty():
    metrics = Metrics()
    assert metrics.drain() == {}
    metrics.add(scalars(critic_loss=1.0))
    metrics.drain()
    assert metrics.drain() == {}
    metrics.add(scalars(critic_loss=5.0))
    assert metrics.drain() == {"critic_loss": 5.0}


@pytest.mark.parametrize("adds", [1, FOLD_EVERY - 1, FOLD_EVERY, FOLD_EVERY + 1, 3 * FOLD_EVERY + 5])
def test_folding_changes_no_mean(adds):
    metrics = Metrics()
    for i in range(adds):
        metrics.add(scalars(i=float(i), one=1.0))

    assert metrics.drain() == {"i": (adds - 1) / 2, "one": 1.0}


def test_memory_is_bounded_however_rare_the_drains():
    metrics = Metrics()
    for _ in range(5 * FOLD_EVERY + 3):
        metrics.add(scalars(critic_loss=1.0))

    (group,) = metrics._groups["critic_loss",]
    assert len(group._rows) == 3


def test_large_sums_keep_their_small_parts():
    metrics = Metrics()
    metrics.add(scalars(x=2.0**24))
    for _ in range(2 * FOLD_EVERY):
        metrics.add(scalars(x=1.0))

    assert metrics.drain()["x"] == (2**24 + 512) / 513  # float32 would stay at 2**24


def test_a_tensor_may_be_overwritten_after_it_was_added():
    metrics, static = Metrics(), torch.tensor(1.0)
    metrics.add({"alpha": static})
    static.fill_(3.0)
    metrics.add({"alpha": static})
    static.fill_(100.0)

    assert metrics.drain() == {"alpha": 2.0}


def test_a_tensor_with_gradient_keeps_no_graph():
    metrics, weight = Metrics(), torch.tensor(2.0, requires_grad=True)
    metrics.add({"loss": weight * 3})

    (group,) = metrics._groups["loss",]
    assert not group._rows[0].requires_grad
    assert metrics.drain() == {"loss": 6.0}


def test_what_is_not_finite_is_reported_as_it_is():
    metrics = Metrics()
    metrics.add(scalars(a=math.nan, b=math.inf, c=1.0))
    metrics.add(scalars(a=1.0, b=1.0, c=1.0))

    means = metrics.drain()
    assert math.isnan(means["a"])
    assert (means["b"], means["c"]) == (math.inf, 1.0)


def test_scalars_of_several_devices_come_together():
    metrics = Metrics()
    metrics.add({"host": torch.tensor(1.0), "meta": torch.tensor(1.0, device="meta")})

    assert [group.names for group in metrics._groups["host", "meta"]] == [["host"], ["meta"]]


@pytest.mark.gpu
def test_an_add_on_cuda_waits_for_nothing():
    metrics = Metrics()
    values = {name: torch.ones((), device="cuda") for name in "abcdefgh"} | {"host": torch.tensor(2.0)}
    metrics.add(values)
    torch.cuda.synchronize()
    torch.cuda._sleep(10**9)  # about half a second of device time
    start = time.perf_counter()
    metrics.add(values)

    assert time.perf_counter() - start < 0.1
    assert metrics.drain() == dict.fromkeys("abcdefgh", 1.0) | {"host": 2.0}


def test_an_add_of_eight_scalars_costs_less_than_50_us():
    metrics, values = Metrics(), scalars(**dict.fromkeys("abcdefgh", 1.0))

    def mean_us(adds=500):
        start = time.perf_counter_ns()
        for _ in range(adds):
            metrics.add(values)
        return (time.perf_counter_ns() - start) / adds / 1000

    assert min(mean_us() for _ in range(10)) < 50


@pytest.mark.parametrize("before", [1, FOLD_EVERY - 1, FOLD_EVERY, FOLD_EVERY + 7])
def test_a_state_that_is_put_back_drains_to_the_same_bits(before):
    torch.manual_seed(0)
    values = [torch.rand(()) * 10 ** (i % 7) for i in range(2 * FOLD_EVERY + 3)]
    whole, first, second = Metrics(), Metrics(), Metrics()
    for i, value in enumerate(values):
        added = {"loss": value} | ({"actor_loss": value} if i % 2 else {})
        whole.add(added)
        if i == before:
            second.load_state_dict(first.state_dict(), torch.device("cpu"))
        (first if i < before else second).add(added)

    assert second.drain() == whole.drain()

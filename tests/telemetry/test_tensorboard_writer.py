"""Event files read back by TensorBoard itself."""

import math
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from unilab.telemetry.tensorboard import TensorBoardWriter


def read(run_dir):
    """{tag: [(step, value), ...]} over all files, in file order."""
    found = {}
    for file in sorted(run_dir.glob("events.out.tfevents*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


def accumulate(run_dir):
    accumulator = EventAccumulator(str(run_dir))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in tags}


def test_scalars_come_back_with_their_steps(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(0, {"train/critic_loss": 0.5})
    writer.write(1000, {"train/critic_loss": 0.25, "rollout/ep_rew_mean": -1200.0})
    writer.write(3_000_000_000, {"train/critic_loss": 2.0})
    writer.close()
    writer.close()

    expected = {
        "train/critic_loss": [(0, 0.5), (1000, 0.25), (3_000_000_000, 2.0)],
        "rollout/ep_rew_mean": [(1000, -1200.0)],
    }
    assert read(tmp_path) == expected == accumulate(tmp_path)


def test_steps_strictly_grow_per_tag(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(100, {"a": 1.0})
    writer.write(100, {"a": 2.0, "b": 3.0})
    writer.write(50, {"a": 4.0, "c": 5.0})  # an evaluation of an older snapshot may arrive late
    writer.write(101, {"a": 6.0})
    writer.close()

    assert read(tmp_path) == {"a": [(100, 1.0), (101, 6.0)], "b": [(100, 3.0)], "c": [(50, 5.0)]}


def test_values_that_no_float32_holds_are_left_out(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(1, {"a": math.nan, "b": -math.inf, "c": 1e300, "d": 1.0})
    writer.write(2, {"a": 3.0})
    writer.close()

    assert read(tmp_path) == {"a": [(2, 3.0)], "d": [(1, 1.0)]}


def test_a_run_without_scalars_leaves_no_file(tmp_path):
    writer = TensorBoardWriter(tmp_path / "run")
    writer.write(1, {})
    writer.close()

    assert not (tmp_path / "run").exists()


def test_each_start_has_its_own_file_also_within_one_second(tmp_path):
    for _ in range(3):
        writer = TensorBoardWriter(tmp_path)
        writer.write(1, {"a": 1.0})
        writer.close()

    assert len(list(tmp_path.iterdir())) == 3


def test_a_continued_run_hides_what_lies_beyond_its_checkpoint_and_never_goes_back(tmp_path):
    crashed = TensorBoardWriter(tmp_path)
    for step in (1000, 2000, 3000):
        crashed.write(step, {"a": 1.0})
    crashed.close()
    resumed = TensorBoardWriter(tmp_path, start_steps=2000)
    for step in (2000, 2500):
        resumed.write(step, {"a": 2.0})
    resumed.close()

    assert accumulate(tmp_path) == {"a": [(1000, 1.0), (2000, 1.0), (2500, 2.0)]}


def test_the_first_scalars_show_at_once_and_later_ones_after_the_interval(tmp_path):
    now = [0.0]
    writer = TensorBoardWriter(tmp_path, flush_s=5.0, clock=lambda: now[0])
    shown = []
    for now[0], step in ((0.0, 1), (1.0, 2), (4.0, 3), (5.0, 4), (6.0, 5)):
        writer.write(step, {"a": 1.0})
        shown.append(len(read(tmp_path)["a"]))
    writer.close()

    assert shown == [1, 1, 1, 4, 4]
    assert len(read(tmp_path)["a"]) == 5


def test_a_scalar_takes_at_most_42_bytes(tmp_path):
    tags = [f"rollout/ep_{name}_mean" for name in ("rew", "len", "vel", "pos")]
    writer = TensorBoardWriter(tmp_path)
    for step in range(1, 1001):
        writer.write(step * 1000, dict.fromkeys(tags, 1.5))
    writer.close()

    (file,) = tmp_path.iterdir()
    assert file.stat().st_size / 4000 < 42


def histograms(run_dir):
    """{tag: [(step, value), ...]} as TensorBoard's accumulator has them."""
    accumulator = EventAccumulator(str(run_dir), size_guidance={"histograms": 0})
    accumulator.Reload()
    return {
        tag: [(e.step, e.histogram_value) for e in accumulator.Histograms(tag)]
        for tag in accumulator.Tags()["histograms"]
    }


def test_histograms_come_back_with_counts_ends_and_sums(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write_histograms(100, {"lag/a": {0: 3, 2: 1, 5: 4}, "lag/b": {7: 2}})
    writer.write(100, {"x": 1.0})
    writer.write_histograms(200, {"lag/a": {-1: 1}})
    writer.close()
    found = histograms(tmp_path)

    (first, a), (second, later) = found["lag/a"]
    assert (first, second) == (100, 200)
    assert (a.num, a.min, a.max, a.sum, a.sum_squares) == (8, 0, 5, 22, 104)
    assert list(a.bucket) == [3, 0, 1, 0, 0, 4]
    assert list(a.bucket_limit) == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    ((_, b),) = found["lag/b"]
    assert (b.num, b.min, b.max, b.sum, list(b.bucket)) == (2, 7, 7, 14, [2])
    assert (later.num, later.min, later.max) == (1, -1, -1)
    assert accumulate(tmp_path) == {"x": [(100, 1.0)]}


@pytest.mark.parametrize("high", [99, 100, 101, 100_000])
def test_many_values_share_buckets_and_none_is_lost(tmp_path, high):
    counts = {value: 1 + value % 3 for value in range(0, high + 1, max(1, high // 500))} | {high: 7}
    writer = TensorBoardWriter(tmp_path)
    writer.write_histograms(1, {"a": counts})
    writer.close()
    (((_, found),),) = histograms(tmp_path).values()

    assert found.num == sum(found.bucket) == sum(counts.values())
    assert (found.min, found.max, found.sum) == (0, high, sum(v * n for v, n in counts.items()))
    assert len(found.bucket) <= 101
    edges = [-0.5, *found.bucket_limit]
    for low, upper, count in zip(edges, found.bucket_limit, found.bucket, strict=False):
        assert count == sum(n for value, n in counts.items() if low < value < upper)


def test_the_dashboard_sees_all_of_a_histogram(tmp_path):
    """The loader of the web page turns it into rows of left edge, right edge and count."""
    writer = TensorBoardWriter(tmp_path)
    writer.write_histograms(3, {"a": {0: 3, 2: 1, 5: 4}})
    writer.close()
    (file,) = tmp_path.iterdir()
    tensors = [value.tensor for event in EventFileLoader(str(file)).Load() for value in event.summary.value]

    rows = tensor_util.make_ndarray(tensors[0])
    assert rows[:, 2].sum() == 8
    assert (rows[0, 0], rows[-1, 1]) == (0, 5)


def test_a_histogram_is_written_once_a_step_and_never_goes_back(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for step in (100, 100, 50, 101):
        writer.write_histograms(step, {"a": {step: 1}})
    writer.close()

    assert [(step, value.max) for step, value in histograms(tmp_path)["a"]] == [(100, 100), (101, 101)]


def test_a_closed_writer_refuses(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.write(1, {"a": 1.0})


def test_the_first_write_imports_neither_torch_nor_tensorflow(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from unilab.telemetry.tensorboard import TensorBoardWriter\n"
        "early = {m.split('.')[0] for m in sys.modules}\n"
        f"TensorBoardWriter(pathlib.Path({str(tmp_path)!r})).write(1, {{'a': 1.0}})\n"
        "late = {m.split('.')[0] for m in sys.modules}\n"
        "assert 'tensorboard' not in early and 'tensorboard' in late\n"
        "assert not late & {'torch', 'tensorflow', 'numpy'}, late\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert read(tmp_path) == {"a": [(1, 1.0)]}

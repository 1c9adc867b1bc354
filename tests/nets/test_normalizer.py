import numpy as np
import pytest
import torch

from unilab.nets.normalizer import EPSILON, NoNorm, RunningNorm, make_norm

ROWS = (np.random.default_rng(0).normal(size=(1000, 4)) * [1, 10, 0.01, 3] + [0, 1e3, -5, 0.5]).astype(np.float32)


def fed(rows: np.ndarray, sizes: list[int]) -> RunningNorm:
    """A normaliser fed ``rows`` in chunks of these sizes, then the rest."""
    norm = RunningNorm(rows.shape[1])
    for chunk in np.split(rows, np.cumsum(sizes)):
        norm.update(torch.from_numpy(chunk))
    return norm


@pytest.mark.parametrize("sizes", [[], [1], [1, 1, 1, 500], [333, 0, 333], [999], [250] * 3])
def test_mean_and_variance_are_numpys_however_the_rows_were_cut(sizes):
    norm = fed(ROWS, sizes)

    oracle = ROWS.astype(np.float64)
    assert norm.count.item() == 1000
    np.testing.assert_allclose(norm.mean.numpy(), oracle.mean(0), rtol=1e-12)
    np.testing.assert_allclose((norm.m2 / norm.count).numpy(), oracle.var(0), rtol=1e-11)
    expected = (ROWS - oracle.mean(0)) / (oracle.std(0) + EPSILON)
    np.testing.assert_allclose(norm(torch.from_numpy(ROWS)).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_the_order_of_rows_does_not_matter():
    forwards, backwards = fed(ROWS, [100, 7]), fed(ROWS[::-1].copy(), [400])

    torch.testing.assert_close(forwards.mean, backwards.mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(forwards.m2, backwards.m2, rtol=1e-10, atol=0)


def test_a_mean_that_moves_between_chunks_counts_into_the_variance():
    norm = RunningNorm(1)
    norm.update(torch.tensor([[0.0], [0.0]]))
    norm.update(torch.tensor([[4.0], [4.0]]))

    # mean 2, variance 4, though each chunk's own variance is 0
    assert norm.mean.item() == 2.0
    assert norm.m2.item() == 16.0
    assert norm(torch.tensor([[5.0]])).item() == pytest.approx(3.0 / (2.0 + EPSILON))


def test_a_small_spread_on_a_large_mean_survives():
    norm = fed(np.tile(np.float32([[8192.0], [8193.0]]), (500, 1)), [3, 500])

    assert (norm.m2 / norm.count).item() == pytest.approx(0.25, rel=1e-9)


def test_it_is_the_identity_before_the_first_row():
    x = torch.from_numpy(ROWS)

    assert torch.equal(RunningNorm(4)(x), x)


def test_an_empty_chunk_changes_nothing():
    norm = fed(ROWS[:10], [])
    before = {name: buffer.clone() for name, buffer in norm.named_buffers()}

    norm.update(torch.zeros(0, 4))

    assert all(torch.equal(buffer, before[name]) for name, buffer in norm.named_buffers())


def test_a_column_that_never_changes_gives_zero_and_amplifies_no_more_than_the_epsilon_allows():
    norm = fed(np.full((50, 1), 3.0, np.float32), [20])

    assert norm(torch.tensor([[3.0], [3.5]])).flatten().tolist() == pytest.approx([0.0, 0.5 / EPSILON])


def test_updates_write_into_the_buffers_that_are_there():
    norm = RunningNorm(4)
    block = {name: torch.empty_like(buffer) for name, buffer in norm.named_buffers()}
    for name, buffer in norm.named_buffers():
        buffer.data = block[name].copy_(buffer)

    norm.update(torch.from_numpy(ROWS))

    oracle = fed(ROWS, [])
    for name, buffer in oracle.named_buffers():
        assert torch.equal(block[name], buffer), name


def test_what_a_forward_reads_is_float32():
    norm = fed(ROWS, [])

    assert norm(torch.from_numpy(ROWS)).dtype == norm.shift.dtype == norm.scale.dtype == torch.float32
    assert norm.mean.dtype == norm.m2.dtype == torch.float64


def test_no_norm_is_the_identity_without_state():
    norm, x = make_norm(4, enabled=False), torch.from_numpy(ROWS)
    norm.update(x)

    assert isinstance(norm, NoNorm)
    assert norm(x) is x
    assert not norm.state_dict()

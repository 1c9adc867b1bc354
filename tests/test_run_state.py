"""A state is made of tensors that torch.save takes, and comes back as the arrays that it was."""

from __future__ import annotations

import io
import pickle

import numpy as np
import torch

from unilab.run_state import as_arrays, as_tensors

STATE = {
    "empty": {"sum": np.empty((0, 3)), "count": np.empty((0, 3), np.int64), "flags": np.empty(0, np.bool_)},
    "arrays": [np.arange(5, dtype=np.uint8), np.ones((2, 2), np.float32), np.array(7), np.array([True, False])],
    "generator": np.arange(4, dtype=np.uint64) << np.uint64(62),
    "plain": {"number": 3, "name": "toy", "none": None},
}


def test_a_state_from_another_process_can_be_saved_and_comes_back_as_it_was():
    received = pickle.loads(pickle.dumps(STATE, protocol=5))  # its empty arrays share one address
    file = io.BytesIO()
    torch.save(as_tensors(received), file)
    file.seek(0)
    back = as_arrays(torch.load(file, weights_only=True))

    assert list(back) == list(STATE)
    for name, array in STATE["empty"].items():
        assert (back["empty"][name].dtype, back["empty"][name].shape) == (array.dtype, array.shape)
    for mine, theirs in zip([*back["arrays"], back["generator"]], [*STATE["arrays"], STATE["generator"]], strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    assert back["plain"] == STATE["plain"]


def test_a_tensor_does_not_change_with_its_array():
    array = np.zeros(3)
    tensor = as_tensors({"x": array})["x"]
    array[:] = 1

    assert tensor.tolist() == [0, 0, 0]

"""Two states have one digest exactly if they are equal bit for bit."""

import pytest
import torch
from torch import tensor

from unilab.digest import all_finite, digest

STATE = {"nets": {"w": tensor([1.0, 2.0]), "count": 3}, "names": ["a", "b"], "alpha": 0.1, "none": None}


def copy_of(state):
    return {
        key: copy_of(value) if isinstance(value, dict) else value.clone() if isinstance(value, torch.Tensor) else value
        for key, value in state.items()
    }


def test_equal_states_have_one_digest():
    assert digest(STATE) == digest(copy_of(STATE))
    assert len(digest(STATE)) == 64


def test_the_order_of_keys_does_not_count():
    turned = dict(reversed([(k, dict(reversed(v.items())) if isinstance(v, dict) else v) for k, v in STATE.items()]))

    assert list(turned) != list(STATE)
    assert digest(turned) == digest(STATE)


def test_the_order_of_a_list_counts():
    assert digest([1, 2]) != digest([2, 1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tensor([1.0]), tensor([1.0], dtype=torch.float64)),
        (tensor([0], dtype=torch.int32), tensor([0.0])),
        (tensor([1.0, 2.0]), tensor([[1.0, 2.0]])),
        (tensor([1.0]), tensor(1.0)),
        (tensor([0.0]), tensor([-0.0])),
        (tensor([1.0]), tensor([1.0 + 2**-23])),
        (tensor([True]), tensor([1], dtype=torch.uint8)),
        (torch.empty(0, 3), torch.empty(3, 0)),
        (tensor([1.0]), [1.0]),
        (1, 1.0),
        (1, True),
        (1, "1"),
        (0.1, 0.1 + 2**-56),
        (None, "None"),
        ("a", "b"),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({}, []),
    ],
)
def test_dtype_shape_bytes_type_and_names_count(one, other):
    assert digest({"x": one}) != digest({"x": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "c": 2}}),
        ([[1, 2]], [[1], 2]),
        ([[], 1], [[1]]),
        ({"a": [1], "b": 2}, {"a": [1, {"b": 2}]}),
        ({"a:1{b": 2}, {"a": 1, "b": 2}),
        (["a", "b"], ["ab"]),
    ],
)
def test_nesting_counts(one, other):
    assert digest(one) != digest(other)


def test_where_a_tensor_lies_in_memory_does_not_count():
    base = torch.arange(12.0).reshape(3, 4)

    assert digest(base.t()) == digest(base.t().contiguous())
    assert digest(base[:, 1]) == digest(tensor([1.0, 5.0, 9.0]))
    assert digest(torch.nn.Parameter(base)) == digest(base)


def test_nan_is_equal_to_itself_here():
    nan = float("nan")

    assert digest([nan, tensor([nan])]) == digest([nan, tensor([nan])])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.int64, torch.float64])
def test_every_dtype_of_a_state_can_be_digested(dtype):
    assert digest(torch.ones(3, dtype=dtype)) != digest(torch.zeros(3, dtype=dtype))


def test_a_finite_state_is_finite():
    assert all_finite(STATE)
    assert all_finite([tensor([2**62]), tensor([True]), torch.empty(0)])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_value_that_is_not_finite_is_found_however_deep(value):
    bad = torch.ones(100)
    bad[57] = value

    assert not all_finite({"a": [1, {"b": (tensor([1.0]), bad)}]})
    assert not all_finite(bad.to(torch.float16))

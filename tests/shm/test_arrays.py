"""Named arrays over one block: aligned, apart from each other, gone together."""

import numpy as np
import pytest

from unilab.errors import BlockFreed
from unilab.shm.arrays import ALIGNMENT, Arrays, Field, required_bytes
from unilab.shm.segment import Block

FIELDS = [
    Field("odd", (3,), "float32"),  # 12 bytes -> 64
    Field("counters", (17,), "int64"),  # 136 bytes -> 192
    Field("flag", (1,), "bool"),  # 1 byte -> 64
    Field("table", (2, 5), "float64"),  # 80 bytes -> 128
]


@pytest.fixture
def arrays():
    arrays = Arrays(FIELDS, "sample")
    yield arrays
    arrays.free()


def test_bytes_are_the_padded_sum():
    assert [field.nbytes for field in FIELDS] == [12, 136, 1, 80]
    assert required_bytes(FIELDS) == 64 + 192 + 64 + 128
    assert required_bytes([Field("exact", (16,), "float32")]) == 64
    assert required_bytes([Field("over", (17,), "float32")]) == 128


def test_the_block_has_the_required_size(arrays):
    assert arrays.nbytes == required_bytes(FIELDS)


def test_every_array_starts_on_a_cache_line_whatever_comes_before_it(arrays):
    assert ALIGNMENT == 64
    for field in FIELDS:
        assert getattr(arrays, field.name).ctypes.data % 64 == 0, field.name


def test_arrays_have_their_shape_and_dtype(arrays):
    for field in FIELDS:
        array = getattr(arrays, field.name)
        assert (array.shape, array.dtype) == (field.shape, np.dtype(field.dtype))


def test_no_array_reaches_into_another(arrays):
    for value, field in enumerate(FIELDS, start=1):
        getattr(arrays, field.name)[...] = value

    assert (arrays.odd == 1).all()
    assert (arrays.counters == 2).all()
    assert arrays.flag.all()
    assert (arrays.table == 4).all()


def test_a_field_without_elements_is_an_empty_array():
    arrays = Arrays([Field("none", (0, 7), "float32"), Field("after", (1,), "int64")], "sample")

    assert arrays.none.shape == (0, 7)
    assert arrays.after.tolist() == [0]
    arrays.free()


def test_a_freed_array_says_block_and_name_also_while_a_view_lives(arrays):
    view = arrays.table
    arrays.free()

    for name in ("odd", "table"):
        with pytest.raises(BlockFreed, match=f"sample.{name} was used after it was freed"):
            getattr(arrays, name)
    view[:] = 1.0  # still mapped: no crash
    arrays.free()


def test_a_name_that_was_never_a_field_is_an_attribute_error(arrays):
    with pytest.raises(AttributeError):
        _ = arrays.nothing
    arrays.free()
    with pytest.raises(AttributeError):
        _ = arrays.nothing


def test_what_is_handed_over_is_the_block_and_not_the_bytes(arrays):
    state = arrays.__getstate__()

    assert set(state) == {"_fields", "_block"}
    assert isinstance(state["_block"], Block)


def test_what_arrives_maps_the_same_bytes(arrays):
    other = Arrays.__new__(Arrays)
    other.__setstate__(arrays.__getstate__())
    arrays.counters[16] = 2**40

    assert other.counters[16] == 2**40
    assert np.shares_memory(other.counters, arrays.counters)

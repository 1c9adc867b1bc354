import numpy as np
import pytest

from unilab.envs.gymnasium_info import MAX_METRICS, MetricReader, metric_names, metric_value


def test_metric_names_are_the_real_scalars_of_the_first_step_sorted():
    info = {
        "speed": np.float64(1),
        "count": 3,
        "alive": True,
        "flag": np.bool_(False),
        "zero_d": np.array(2),
        "array": np.zeros(1),
        "text": "1",
        "none": None,
        "nested": {"a": 1},
        "complex": 1j,
        5: 1.0,
    }

    assert metric_names({"only_in_reset": 1.0}, info) == ("alive", "count", "flag", "speed", "zero_d")


@pytest.mark.parametrize("infos", [({"is_success": None}, {}), ({}, {"is_success": np.array([False])})])
def test_a_success_flag_is_a_metric_wherever_it_appears(infos):
    assert metric_names(*infos) == ("is_success",)


@pytest.mark.parametrize("info", [None, [], "text"])
def test_an_info_that_is_no_dict_has_no_metrics(info):
    assert metric_names(info, info) == ()


def test_of_too_many_names_success_and_the_first_in_the_alphabet_are_kept():
    info = {f"k{i:03}": 1.0 for i in reversed(range(100))} | {"success": True}

    names = metric_names({}, info)

    assert len(names) == MAX_METRICS
    assert names == (*(f"k{i:03}" for i in range(MAX_METRICS - 1)), "success")


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1), (True, 1), (np.float32(0.5), 0.5), (np.array([2]), 2), (np.array(3), 3), (10**400, np.nan)]
    + [(odd, np.nan) for odd in (None, "1", np.zeros(2), [1], {}, np.array("a"), 1j)],
)
def test_a_metric_is_a_number_or_nan(value, number):
    np.testing.assert_equal(metric_value(value), float(number))


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
@pytest.mark.parametrize(
    ("info", "a"),
    [
        ({"a": 1, "b": 2}, 1),
        ({"b": 2}, np.nan),
        ({"a": None, "b": 2}, np.nan),
        (None, np.nan),
        ({"a": [1]}, np.nan),
    ],
)
def test_the_reader_fills_every_name(names, info, a):
    row = np.full(len(names), -9.0)

    MetricReader(names).read(row, info)

    np.testing.assert_equal(row[0], float(a))
    assert -9 not in row


def test_columns_are_float32_arrays_by_name():
    columns = MetricReader(("a", "b")).columns(np.array([[1.0, 2.0], [3.0, 4.0]]))

    assert {name: column.tolist() for name, column in columns.items()} == {"a": [1, 3], "b": [2, 4]}
    assert columns["a"].dtype == np.float32
    assert MetricReader(()).columns(np.empty((2, 0))) == {}

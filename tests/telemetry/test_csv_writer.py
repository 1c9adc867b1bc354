"""progress.csv read back with the csv module."""

import csv

import pytest

from unilab.telemetry.csv import CsvWriter


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_readable_while_the_file_is_open(tmp_path):
    writer = CsvWriter(tmp_path / "progress.csv")
    writer.write(100, {"a": 0.1})
    assert read(tmp_path / "progress.csv") == [{"env_steps": "100", "a": "0.1"}]
    writer.close()
    writer.close()


def test_a_late_column_leaves_earlier_rows_empty_and_a_missing_value_its_cell(tmp_path):
    path = tmp_path / "new" / "progress.csv"
    writer = CsvWriter(path)
    writer.write(1, {"a": 1.0})
    writer.write(2, {"b, with comma": 2.5, "a": 3.0})
    writer.write(3, {"b, with comma": 4.0})
    writer.close()

    assert path.read_text() == 'env_steps,a,"b, with comma"\n1,1.0,\n2,3.0,2.5\n3,,4.0\n'
    assert [p.name for p in path.parent.iterdir()] == ["progress.csv"]


def test_what_is_not_finite_is_kept_by_name_and_numbers_keep_all_digits(tmp_path):
    writer = CsvWriter(tmp_path / "progress.csv")
    writer.write(1, {"a": float("nan"), "b": float("-inf"), "c": 1 / 3, "d": 7})
    writer.close()

    (row,) = read(tmp_path / "progress.csv")
    assert (row["a"], row["b"], row["d"]) == ("nan", "-inf", "7.0")
    assert float(row["c"]) == 1 / 3


def test_a_continued_run_drops_what_lies_beyond_its_checkpoint_and_a_cut_last_line(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("env_steps,a\n1000,1.0\n2000,2.0\n3000,3.0\n40")
    writer = CsvWriter(path, start_steps=2000)
    writer.write(2500, {"b": 5.0})
    writer.close()

    assert path.read_text() == "env_steps,a,b\n1000,1.0,\n2000,2.0,\n2500,,5.0\n"


def test_a_spoilt_file_of_an_earlier_run_does_not_stop_the_next(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_bytes(b"env_steps,a\n1000,1.0\n\xff\x00x,1\n\n2000\n")
    writer = CsvWriter(path, start_steps=2000)
    writer.close()

    assert path.read_text() == "env_steps,a\n1000,1.0\n2000,\n"


def test_a_new_run_replaces_the_file(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("env_steps,old\n9,9.0\n")
    writer = CsvWriter(path)
    writer.write(1, {"a": 1.0})
    writer.close()

    assert path.read_text() == "env_steps,a\n1,1.0\n"


def test_a_closed_writer_refuses(tmp_path):
    writer = CsvWriter(tmp_path / "progress.csv")
    writer.close()
    with pytest.raises(ValueError, match=r"progress\.csv is closed"):
        writer.write(1, {"a": 1.0})

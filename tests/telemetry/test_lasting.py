"""A file of scalars may fail for a while; what is lost is said once."""

import pytest

from unilab.telemetry.lasting import LastingWriter

FULL = OSError(28, "No space left on device")


class File:
    """Takes rows unless its disk is full."""

    def __init__(self, disk, start_steps):
        if disk["full"]:
            raise FULL
        self.disk = disk
        disk["starts"].append(start_steps)

    def write(self, env_steps, scalars):
        if self.disk["full"]:
            raise FULL
        self.disk["rows"].append(env_steps)

    def write_histograms(self, env_steps, histograms):
        if self.disk["full"]:
            raise FULL
        self.disk["histograms"].append((env_steps, histograms))

    def close(self):
        if self.disk["full"]:
            raise FULL


@pytest.fixture
def disk():
    return {"full": False, "starts": [], "rows": [], "histograms": []}


@pytest.fixture
def notes():
    return []


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def writer(disk, notes, clock):
    return LastingWriter(
        "x.csv", lambda start: File(disk, start), start_steps=7, note=notes.append, clock=lambda: clock[0]
    )


def test_a_full_disk_is_said_once_and_costs_only_its_rows(writer, disk, notes, clock):
    for env_steps, full in ((10, False), (20, True), (30, True), (40, False)):
        disk["full"], clock[0] = full, float(env_steps)
        writer.write(env_steps, {"a": 1.0})

    assert disk["rows"] == [10, 40]
    assert disk["starts"] == [7, 10]  # continued behind the last row that is there
    assert notes == [
        "x.csv could not be written: No space left on device; training goes on",
        "x.csv is written again, from env step 40 on; what was due before is missing",
    ]
    assert writer.lost is None


def test_a_file_that_failed_is_not_tried_with_every_row(writer, disk, clock):
    disk["full"] = True
    writer.write(10, {"a": 1.0})
    disk["full"], clock[0] = False, 1.9
    writer.write(20, {"a": 1.0})
    assert disk["rows"] == []

    clock[0] = 2.0
    writer.write(30, {"a": 1.0})
    assert disk["rows"] == [30]


def test_histograms_are_lost_and_found_again_like_scalars(writer, disk, notes, clock):
    for env_steps, full in ((10, False), (20, True), (30, True), (40, False)):
        disk["full"], clock[0] = full, float(env_steps)
        writer.write_histograms(env_steps, {"lag": {env_steps: 1}})

    assert disk["histograms"] == [(10, {"lag": {10: 1}}), (40, {"lag": {40: 1}})]
    assert disk["starts"] == [7, 10]
    assert len(notes) == 2
    assert writer.lost is None


def test_a_histogram_that_fails_behind_its_scalars_costs_no_later_row(writer, disk, clock):
    writer.write(10, {"a": 1.0})
    disk["full"] = True
    writer.write_histograms(10, {"lag": {1: 1}})
    disk["full"], clock[0] = False, 5.0
    writer.write(20, {"a": 1.0})
    writer.write_histograms(20, {"lag": {2: 1}})

    assert (disk["rows"], disk["histograms"]) == ([10, 20], [(20, {"lag": {2: 1}})])
    assert disk["starts"] == [7, 10]


def test_what_is_lost_at_the_end_stays_known(writer, disk):
    writer.write(10, {"a": 1.0})
    disk["full"] = True
    writer.close()
    writer.close()

    assert writer.lost == "x.csv could not be written: No space left on device"


def test_a_file_that_cannot_be_opened_at_the_start_is_an_error(disk):
    disk["full"] = True
    with pytest.raises(OSError, match="No space left"):
        LastingWriter("x.csv", lambda start: File(disk, start), start_steps=0, note=print)

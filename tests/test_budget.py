"""What the machine has, by hand: bytes with their factors, threads by role, limits of a container."""

import os

import pytest

from unilab import budget
from unilab.budget import ThreadBudget, check_memory, format_bytes, thread_budget, usable_cores
from unilab.errors import ConfigError, ResourceError

MIB = 2**20


@pytest.fixture
def free(monkeypatch):
    """Set the bytes that are free."""

    def set_free(nbytes):
        monkeypatch.setattr(budget, "available_bytes", lambda: nbytes)

    return set_free


@pytest.fixture
def cgroup(monkeypatch, tmp_path):
    """Write a container's files."""
    monkeypatch.setattr(budget, "_CGROUP", tmp_path)

    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".", 1)).write_text(text)

    return write


# ------------------------------------------------------------ memory


def test_what_fits_is_not_refused(free):
    free(1000)

    check_memory({"ring": 800, "staging slots": 200}, row_bytes=8, buffer_size=100)


def test_a_refusal_names_bytes_factors_and_the_largest_buffer_that_fits(free):
    free(10 * MIB)
    needs = {"ring": 20 * MIB, "staging slots": 2 * MIB}

    with pytest.raises(ResourceError) as caught:
        check_memory(needs, row_bytes=1024, buffer_size=20 * 1024)

    # 10 MiB free less 2 MiB for the slots leave 8 MiB: 8,192 rows of 1 KiB
    assert str(caught.value) == (
        "this run needs 22 MiB of memory (ring 20 MiB, staging slots 2 MiB; the ring is buffer_size=20,480 "
        "rows of 1 KiB) and 10 MiB are free; the largest buffer_size that fits is 8,192"
    )
    assert caught.value.exit_code == 2


def test_the_largest_buffer_that_fits_does_fit_and_one_row_more_does_not(free):
    free(10_007)

    def run(rows):
        check_memory({"ring": 100 * rows, "staging slots": 900}, row_bytes=100, buffer_size=rows)

    with pytest.raises(ResourceError, match="the largest buffer_size that fits is 91"):
        run(5000)
    run(91)
    with pytest.raises(ResourceError):
        run(92)


def test_where_not_even_the_rest_fits_no_buffer_does(free):
    free(100)

    with pytest.raises(ResourceError, match="the largest buffer_size that fits is 0"):
        check_memory({"ring": 800, "staging slots": 200}, row_bytes=8, buffer_size=100)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (172 * 1_000_000, "164 MiB"),
        (3 * 2**30, "3 GiB"),
        (2**40, "1.0 TiB"),
        (5000 * 2**40, "5,000.0 TiB"),
    ],
)
def test_bytes_are_written_in_the_largest_fitting_unit(nbytes, text):
    assert format_bytes(nbytes) == text


def test_a_container_has_its_limit_less_what_it_uses(cgroup, monkeypatch):
    monkeypatch.setattr(budget, "_meminfo_available", lambda: 1000 * MIB)
    cgroup(memory_max=f"{300 * MIB}\n", memory_current=f"{200 * MIB}\n")

    assert budget.available_bytes() == 100 * MIB


def test_the_page_cache_of_a_container_is_no_memory_in_use(cgroup, monkeypatch):
    monkeypatch.setattr(budget, "_meminfo_available", lambda: 1000 * MIB)
    cgroup(memory_max=f"{300 * MIB}\n", memory_current=f"{290 * MIB}\n")
    cgroup(memory_stat=f"anon {50 * MIB}\nfile {240 * MIB}\ninactive_file {200 * MIB}\nslab 5\n")

    assert budget.available_bytes() == 210 * MIB


def test_the_machine_counts_where_it_has_less_than_the_container_may_take(cgroup, monkeypatch):
    monkeypatch.setattr(budget, "_meminfo_available", lambda: 50 * MIB)
    cgroup(memory_max=f"{300 * MIB}\n", memory_current=f"{200 * MIB}\n")

    assert budget.available_bytes() == 50 * MIB


def test_a_container_over_its_limit_has_nothing(cgroup):
    cgroup(memory_max=f"{100 * MIB}\n", memory_current=f"{200 * MIB}\n")

    assert budget.available_bytes() == 0


@pytest.mark.parametrize("files", [{}, {"memory_max": "max\n", "memory_current": "5\n"}, {"memory_max": "7\n"}])
def test_without_a_limit_the_machine_counts(cgroup, monkeypatch, files):
    monkeypatch.setattr(budget, "_meminfo_available", lambda: 77 * MIB)
    cgroup(**files)

    assert budget.available_bytes() == 77 * MIB


def test_the_real_machine_has_some_memory_but_not_more_than_it_holds():
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    assert 0 < budget.available_bytes() <= total


# ------------------------------------------------------------ cores and threads


@pytest.fixture
def cores(monkeypatch):
    """Set the cores of the affinity mask."""

    def set_cores(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))

    return set_cores


@pytest.mark.parametrize(
    ("cpu_max", "usable"),
    [
        ("max 100000\n", 8),
        ("400000 100000\n", 4),
        ("250000 100000\n", 2),  # a third thread would be throttled half of the time
        ("50000 100000\n", 1),
        ("3200000 100000\n", 8),
        ("100000 50000\n", 2),
        ("nonsense\n", 8),
        ("", 8),
    ],
)
def test_a_container_may_use_the_whole_cores_of_its_quota(cgroup, cores, cpu_max, usable):
    cores(8)
    cgroup(cpu_max=cpu_max)

    assert usable_cores() == usable


def test_without_a_quota_the_affinity_mask_counts(cgroup, cores):
    cores(3)

    assert usable_cores() == 3


@pytest.mark.parametrize(
    ("threads", "update_gflop", "learner"),
    [
        (4, 100.0, 3),  # all but the collector's
        (2, 100.0, 1),
        (1, 100.0, 1),  # one core has to do for both
        ("auto", 100.0, 5),  # of 6 cores
        (16, 0.1, 1),  # one per 0.15 GFLOP of an update
        (16, 0.16, 2),
        (16, 0.5, 4),
        (2, 0.0, 1),
    ],
)
def test_the_collector_has_one_thread_and_the_learner_what_it_can_use_of_the_rest(
    cgroup, cores, threads, update_gflop, learner
):
    cores(6)

    assert thread_budget(threads, update_gflop=update_gflop) == ThreadBudget(learner=learner, collector=1)


@pytest.mark.parametrize("threads", [0, -2])
def test_a_thread_count_that_is_not_positive_is_refused(threads):
    with pytest.raises(ConfigError, match=f"threads={threads} is not a positive count"):
        thread_budget(threads, update_gflop=1.0)

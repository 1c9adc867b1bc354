"""What the machine has, by hand: bytes with their factors, threads by role, limits of a container."""

import os
import subprocess
import sys

import pytest

from unilab import budget
from unilab.budget import (
    ThreadBudget,
    check_memory,
    format_bytes,
    keeping_to,
    spread_cores,
    thread_budget,
    usable_cores,
)
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
    """Write a container's files: those of one group, by its path under the mount."""
    monkeypatch.setattr(budget, "_CGROUP", tmp_path / "fs")
    monkeypatch.setattr(budget, "_OWN_GROUPS", tmp_path / "own")

    def write(group="", /, **files):
        folder = tmp_path / "fs" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(text)

    return write


@pytest.fixture
def own_groups(cgroup, tmp_path):
    """Write the process's lines of /proc/self/cgroup."""
    return lambda *lines: (tmp_path / "own").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def machine(monkeypatch):
    """A machine with 1000 MiB and 8 cores."""
    monkeypatch.setattr(budget, "_meminfo_available", lambda: 1000 * MIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def v2_memory(limit, used, **files):
    return {"memory_max": f"{limit * MIB}\n", "memory_current": f"{used * MIB}\n", **files}


def v1_memory(limit, used, **files):
    return {"memory_limit_in_bytes": f"{limit * MIB}\n", "memory_usage_in_bytes": f"{used * MIB}\n", **files}


def v1_cpu(quota, period=100_000):
    return {"cpu_cfs_quota_us": f"{quota}\n", "cpu_cfs_period_us": f"{period}\n"}


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


@pytest.mark.parametrize(
    ("root", "outer", "inner", "left"),
    [
        ((900, 100), (800, 100), (300, 100), 200),
        ((900, 100), (800, 700), (300, 100), 100),  # the smaller limit is the inner one's, but the outer one is fuller
        ((900, 850), (800, 700), (300, 100), 50),
    ],
)
def test_the_fullest_of_the_groups_around_a_process_counts(cgroup, own_groups, machine, root, outer, inner, left):
    own_groups("0::/outer/inner")
    cgroup("", **v2_memory(*root))
    cgroup("outer", **v2_memory(*outer))
    cgroup("outer/inner", **v2_memory(*inner))

    assert budget.available_bytes() == left * MIB


def test_a_group_without_files_has_the_limit_of_the_one_around_it(cgroup, own_groups, machine):
    own_groups("0::/outer/inner")
    cgroup("outer", **v2_memory(300, 200))
    cgroup("outer/inner")

    assert budget.available_bytes() == 100 * MIB


def test_groups_beside_and_below_a_process_do_not_count(cgroup, own_groups, machine):
    own_groups("0::/outer")
    cgroup("outer", **v2_memory(300, 200))
    cgroup("outer/below", **v2_memory(5, 1))
    cgroup("beside", **v2_memory(5, 1))

    assert budget.available_bytes() == 100 * MIB


def test_each_group_has_a_page_cache_of_its_own(cgroup, own_groups, machine):
    own_groups("0::/outer/inner")
    cgroup("outer", **v2_memory(400, 390, memory_stat=f"inactive_file {20 * MIB}\n"))
    cgroup("outer/inner", **v2_memory(300, 290, memory_stat=f"inactive_file {200 * MIB}\n"))

    assert budget.available_bytes() == 30 * MIB


def test_a_path_that_the_mount_lacks_stands_for_the_root_of_the_mount(cgroup, own_groups, machine):
    own_groups("0::/docker/4f5e")
    cgroup("", **v2_memory(300, 200))
    cgroup("docker", **v2_memory(5, 1))  # of a container in this container

    assert budget.available_bytes() == 100 * MIB


def test_a_path_outside_the_namespace_stands_for_the_root_of_the_mount(cgroup, own_groups, machine):
    own_groups("0::/../other")
    cgroup("", **v2_memory(300, 200))
    cgroup("../other", **v2_memory(5, 1))

    assert budget.available_bytes() == 100 * MIB


def test_v1_has_its_limit_less_what_it_uses(cgroup, own_groups, machine):
    own_groups("5:memory:/box", "1:cpu,cpuacct:/", "0::/")
    cgroup("memory/box", **v1_memory(300, 200))

    assert budget.available_bytes() == 100 * MIB


def test_v1_drops_the_page_cache_of_a_whole_group_but_no_shared_memory(cgroup, own_groups, machine):
    own_groups("5:memory:/box")
    stat = f"cache {90 * MIB}\ninactive_file {5 * MIB}\ntotal_cache {250 * MIB}\ntotal_inactive_file {40 * MIB}\n"
    cgroup("memory/box", **v1_memory(300, 290, memory_stat=stat))

    assert budget.available_bytes() == 50 * MIB


def test_the_huge_limit_of_v1_is_none(cgroup, own_groups, machine):
    own_groups("5:memory:/box")
    cgroup("memory/box", memory_limit_in_bytes="9223372036854771712\n", memory_usage_in_bytes=f"{200 * MIB}\n")

    assert budget.available_bytes() == 1000 * MIB


def test_the_fullest_of_the_v1_groups_around_a_process_counts(cgroup, own_groups, machine):
    own_groups("5:memory:/outer/inner")
    cgroup("memory/outer", **v1_memory(400, 370))
    cgroup("memory/outer/inner", **v1_memory(300, 200))

    assert budget.available_bytes() == 30 * MIB


def test_a_path_that_a_v1_mount_lacks_stands_for_the_root_of_the_mount(cgroup, own_groups, machine):
    own_groups("5:memory:/docker/4f5e", "1:cpu,cpuacct:/docker/4f5e")
    cgroup("memory", **v1_memory(300, 200))
    cgroup("cpu,cpuacct", **v1_cpu(300_000))

    assert (budget.available_bytes(), usable_cores()) == (100 * MIB, 3)


def test_where_both_versions_are_mounted_the_tighter_limit_counts(cgroup, own_groups, machine):
    own_groups("5:memory:/box", "0::/box")
    cgroup("memory/box", **v1_memory(300, 200))
    cgroup("box", **v2_memory(300, 240))

    assert budget.available_bytes() == 60 * MIB


@pytest.mark.parametrize("lines", [[], ["nonsense"], ["", "0:"], ["3:pids:/box"]])
def test_without_a_path_of_its_own_a_process_has_the_limits_of_the_root(cgroup, own_groups, machine, lines):
    own_groups(*lines)
    cgroup("", **v2_memory(300, 200), cpu_max="300000 100000\n")
    cgroup("box", **v2_memory(5, 1), cpu_max="100000 100000\n")

    assert (budget.available_bytes(), usable_cores()) == (100 * MIB, 3)


def test_a_malformed_limit_is_none_and_the_other_groups_count(cgroup, own_groups, machine):
    own_groups("0::/outer/inner")
    cgroup("outer", **v2_memory(300, 200), cpu_max="300000 100000\n")
    cgroup("outer/inner", memory_max="nonsense\n", memory_current="5\n", cpu_max="nonsense\n")

    assert (budget.available_bytes(), usable_cores()) == (100 * MIB, 3)


@pytest.mark.parametrize("stat", ["inactive_file\n", "inactive_file \n", "inactive_file many\n", "anon 7\n", ""])
def test_a_page_cache_that_cannot_be_read_is_counted_as_used(cgroup, machine, stat):
    cgroup("", **v2_memory(300, 200, memory_stat=stat))

    assert budget.available_bytes() == 100 * MIB


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
        ("100000 0\n", 8),
        ("nonsense\n", 8),
        ("", 8),
    ],
)
def test_a_container_may_use_the_whole_cores_of_its_quota(cgroup, cores, cpu_max, usable):
    cores(8)
    cgroup(cpu_max=cpu_max)

    assert usable_cores() == usable


@pytest.mark.parametrize(
    ("outer", "inner", "usable"),
    [("400000 100000", "max 100000", 4), ("400000 100000", "200000 100000", 2), ("100000 50000", "300000 100000", 2)],
)
def test_the_smallest_quota_of_the_groups_around_a_process_counts(cgroup, own_groups, machine, outer, inner, usable):
    own_groups("0::/outer/inner")
    cgroup("outer", cpu_max=outer)
    cgroup("outer/inner", cpu_max=inner)

    assert usable_cores() == usable


@pytest.mark.parametrize(
    ("controllers", "mount"),
    [
        ("cpu", "cpu"),
        ("cpu,cpuacct", "cpu,cpuacct"),
        ("cpuacct,cpu", "cpu"),  # a link to "cpu,cpuacct"
    ],
)
def test_v1_controllers_may_share_a_mount(cgroup, own_groups, machine, controllers, mount):
    own_groups("7:cpuset:/box", f"1:{controllers}:/box", "5:memory:/box")
    cgroup(f"{mount}/box", **v1_cpu(300_000))

    assert usable_cores() == 3


@pytest.mark.parametrize(
    ("quota", "period", "usable"),
    [(-1, 100_000, 8), (250_000, 100_000, 2), (50_000, 100_000, 1), (100_000, 25_000, 4), (300_000, 0, 8), ("", 1, 8)],
)
def test_v1_has_the_whole_cores_of_its_quota(cgroup, own_groups, machine, quota, period, usable):
    own_groups("1:cpu,cpuacct:/box")
    cgroup("cpu,cpuacct/box", **v1_cpu(quota, period))

    assert usable_cores() == usable


def test_the_smallest_quota_of_the_v1_groups_around_a_process_counts(cgroup, own_groups, machine):
    own_groups("1:cpu,cpuacct:/outer/inner")
    cgroup("cpu,cpuacct/outer", **v1_cpu(200_000))
    cgroup("cpu,cpuacct/outer/inner", **v1_cpu(-1))

    assert usable_cores() == 2


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


@pytest.mark.parametrize(
    ("threads", "collectors", "updates_per_step", "learner"),
    [
        ("auto", 1, 0.03, 5),  # 0.15 GFLOP for each env step: a core for each
        ("auto", 1, 0.04, 6),  # 0.2: collectors sleep most of the time
        ("auto", 3, 0.03, 3),
        ("auto", 3, 0.04, 6),
        (6, 3, 1.0, 3),  # what was asked for is what there is
        ("auto", 9, 0.01, 1),
    ],
)
def test_a_learner_with_much_to_do_for_each_env_step_has_the_collectors_cores_too(
    cgroup, cores, threads, collectors, updates_per_step, learner
):
    cores(6)
    found = thread_budget(threads, update_gflop=5.0, updates_per_step=updates_per_step, collectors=collectors)

    assert found == ThreadBudget(learner=learner, collector=1)


def test_barriers_spin_for_a_short_time_unless_the_user_says_how_to_wait():
    def spins(**environment):
        code = "import unilab, os; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in __import__('sys').modules)"
        bare = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        run = subprocess.run([sys.executable, "-c", code], env=bare | environment, capture_output=True, text=True)
        return run.stdout.split()

    assert spins() == ["1000", "False"]
    assert spins(GOMP_SPINCOUNT="7") == ["7", "False"]
    assert spins(OMP_WAIT_POLICY="active") == ["None", "False"]


@pytest.mark.parametrize(
    ("threads", "collectors", "learner"), [("auto", 2, 4), ("auto", 5, 1), ("auto", 9, 1), (3, 2, 1), (16, 4, 12)]
)
def test_each_of_several_collectors_has_a_thread_and_the_learner_at_least_one(
    cgroup, cores, threads, collectors, learner
):
    cores(6)

    budget = thread_budget(threads, update_gflop=100.0, collectors=collectors)
    assert budget == ThreadBudget(learner=learner, collector=1)


@pytest.fixture
def affinity(monkeypatch):
    """This process may run on these cores."""
    return lambda *cores: monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cores), raising=False)


def test_each_collector_has_a_core_of_its_own_and_the_learner_the_others(affinity):
    affinity(0, 1, 4, 5)
    cores = spread_cores(2)

    assert cores.all == {0, 1, 4, 5}
    assert cores.learner == {0, 1}
    assert cores.collectors == ({5}, {4})


def test_more_collectors_than_cores_take_turns_on_all_but_the_learners(affinity):
    affinity(2, 3, 7)
    cores = spread_cores(5)

    assert cores.learner == {2}
    assert cores.collectors == ({7}, {3}, {7}, {3}, {7})


@pytest.mark.parametrize(("threads", "learner"), [(1, {0, 1}), (2, {0, 1}), (3, {0, 1, 4, 5}), (4, {0, 1, 4, 5})])
def test_a_learner_with_more_threads_than_cores_of_its_own_keeps_to_none(affinity, threads, learner):
    affinity(0, 1, 4, 5)
    cores = spread_cores(2, threads)

    assert cores.learner == learner
    assert cores.collectors == ({5}, {4})


def test_there_is_nothing_to_spread_on_one_core_or_without_affinity(affinity, monkeypatch):
    affinity(3)
    assert spread_cores(2) is None
    monkeypatch.delattr(os, "sched_getaffinity")
    assert spread_cores(2) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_a_block_keeps_to_its_cores_and_gives_them_back_also_after_an_error():
    before = os.sched_getaffinity(0)
    one, seen = frozenset({max(before)}), []

    def fail():
        seen.append(os.sched_getaffinity(0))
        raise KeyError

    with pytest.raises(KeyError), keeping_to(one):
        fail()
    assert seen == [one]
    assert os.sched_getaffinity(0) == before
    with keeping_to(None):
        assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("threads", [0, -2])
def test_a_thread_count_that_is_not_positive_is_refused(threads):
    with pytest.raises(ConfigError, match=f"threads={threads} is not a positive count"):
        thread_budget(threads, update_gflop=1.0)

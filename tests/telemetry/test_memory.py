"""Resident memory is the kernel's number, of any process that is there."""

import mmap
import subprocess
import sys

from unilab.telemetry.memory import resident_bytes


def test_memory_that_is_touched_counts_and_memory_that_is_only_taken_does_not():
    before = resident_bytes()
    block = mmap.mmap(-1, 64_000_000)
    taken = resident_bytes() - before
    for _ in range(32):
        block.write(b"1" * 1_000_000)
    touched = resident_bytes() - before

    assert taken < 16e6
    assert 32e6 <= touched < 48e6


def test_it_is_what_the_kernel_says_of_another_process():
    program = [sys.executable, "-c", "held = b'1' * 32_000_000; print(flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found = resident_bytes(child.pid)
        with open(f"/proc/{child.pid}/status") as file:
            (line,) = [line for line in file if line.startswith("VmRSS:")]
        child.stdin.close()

    assert found > 32e6
    assert abs(found - 1024 * int(line.split()[1])) < 1e6


def test_a_process_that_is_gone_has_none():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert resident_bytes(child.pid) is None

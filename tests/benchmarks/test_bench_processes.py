import sys
import time
from pathlib import Path

import pytest
from processes import Program, descendants, running_s

# A parent and a child in a session of its own, as unilab's workers are, each counting in a file.
COUNTING = """
import subprocess, sys, time
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"], start_new_session=True)
path = f"{sys.argv[1]}/{'child' if len(sys.argv) > 2 else 'parent'}"
count = 0
while True:
    count += 1
    with open(path, "w") as out:
        out.write(str(count))
    time.sleep(0.001)
"""


@pytest.fixture
def program(tmp_path):
    script = tmp_path / "counting.py"
    script.write_text(COUNTING)
    one = Program([sys.executable, str(script), str(tmp_path)], tmp_path / "console.txt")
    until(lambda: all((tmp_path / name).exists() for name in ("parent", "child")))
    yield one
    one.end()


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def counts(folder):
    return [int((folder / name).read_text() or 0) for name in ("parent", "child")]


def states(program):
    pids = [program._process.pid, *descendants(program._process.pid)]
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids]


def test_seconds_that_a_program_was_held_are_not_on_its_clock():
    holds = [(12.0, 15.0), (20.0, 21.0)]

    assert running_s(10.0, holds, 11.0) == 1.0
    assert running_s(10.0, holds, 13.0) == 2.0  # in the middle of a hold
    assert running_s(10.0, holds, 16.0) == 3.0
    assert running_s(10.0, holds, 30.0) == 16.0


def test_a_held_program_stands_with_all_below_it_and_goes_on_where_it_was(program, tmp_path):
    program.hold()
    until(lambda: set(states(program)) == {"T"})
    assert len(states(program)) == 2
    clock, before = program.clock(), counts(tmp_path)
    assert program.clock(time.time() + 100.0) == pytest.approx(clock, abs=1e-6)

    program.go_on()
    until(lambda: all(now > then for now, then in zip(counts(tmp_path), before, strict=True)))
    assert program.clock() > clock


def test_a_program_that_is_held_can_be_ended(program):
    program.hold()
    (child,) = descendants(program._process.pid)
    program.end()
    program.end()

    assert program.exit_code is not None
    until(lambda: not alive(child))  # in a session of its own, with nobody left to end it


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


HOLDING = """
import sys, time
from pathlib import Path
from processes import Program, end_in_order
end_in_order()
one = Program([sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1]) / "held.txt")
try:
    one.hold()
    print(one._process.pid, flush=True)
    time.sleep(600)
finally:
    one.end()
"""


def test_sigterm_ends_what_was_held_too(tmp_path):
    path = {"PYTHONPATH": str(Path(sys.modules["processes"].__file__).parent)}
    holder = Program([sys.executable, "-c", HOLDING, str(tmp_path)], tmp_path / "console.txt", path)
    until(lambda: holder.last_words().strip().isdigit())
    held = int(holder.last_words())

    holder.end()

    assert holder.exit_code == 143
    assert not Path(f"/proc/{held}").exists()


def test_the_last_words_are_the_end_of_what_was_printed(tmp_path):
    one = Program([sys.executable, "-c", "for i in range(100): print(i)"], tmp_path / "console.txt")
    until(lambda: one.exit_code is not None)

    assert one.last_words(3) == "97\n98\n99"
    assert one.exit_code == 0

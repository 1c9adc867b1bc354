"""Kill processes that save all the time, at random moments, and look at what each leaves.

Arguments: directory of the checkpoints, number of kills, seed. One interpreter that forks: importing torch takes longer
than all the rest. The helpers of tests/ and tests/checkpoint must be on its path.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from run_states import Run

from unilab.checkpoint import find_checkpoint, list_checkpoints

CAPACITY, CHUNK = 20_000, 500


def run_at(folder, step):
    """A run whose ring stands at ``step`` and whose checkpoints go on in the same directory."""
    return Run(folder, capacity=CAPACITY, chunk=CHUNK, keep=3).advance(step // CHUNK)


def save_for_ever(folder, step):
    run = run_at(folder, step)
    while True:
        run.advance().begin()


def steps_on_disk(folder):
    return [int(path.name[-12:]) for path in list_checkpoints(folder)]


def main(folder, kills, seed):
    moments, newest = random.Random(seed), 0
    for _ in range(kills):
        child = os.fork()
        if not child:
            save_for_ever(folder, newest)
        deadline = time.monotonic() + 60
        while newest not in (0, *steps_on_disk(folder)) or max(steps_on_disk(folder), default=0) <= newest:
            assert time.monotonic() < deadline, "nothing was saved"
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

        found = find_checkpoint(folder)
        assert found.skipped == [], found.skipped
        step = run_at(folder, max(steps_on_disk(folder))).check(found.path)
        assert step > newest, (step, newest)
        dotted = [name for name in os.listdir(folder) if name.startswith(".")]
        assert len(dotted) <= 1, dotted
        sys.stdout.write(f"killed {'in a save' if dotted else 'between saves'} after step {step}\n")
        newest = step
    run = run_at(folder, newest).advance()
    run.check(run.save())
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    sys.stdout.write("nothing left over\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

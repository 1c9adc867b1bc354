"""How many env steps and updates a second does a whole run make, beside Stable-Baselines3 and SBX?

    python benchmarks/bench_end_to_end.py [--cases small-1 small-8 large] [--repeats 5]

One recipe for all, SAC without layer normalisation: HalfCheetah-v5, 2x256, batch 256, one update per env step, 1 and 8
envs; and 64 envs, 2x512, batch 8,192, one update per step of all envs. Each run is a process of its own; all of a case
are started, one after the other, up to steady speed, compiling included, and held. Then each gets the whole machine for
some seconds in turn, and its speed is env steps over wall time between the first and the last row of progress inside.
The peers need `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import harness
import numpy as np
from peers import Peer, PeerRun
from processes import Program, end_in_order

REPOSITORY = Path(__file__).resolve().parent.parent
LOOK_S = 0.1
START_S = 900.0  # compiling included, also beside other programs
ENDLESS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recipe."""

    num_envs: int
    hidden: int
    batch: int
    updates: int  # per step of all envs
    prefill: int
    row: int  # env steps between rows of progress
    turn_s: float
    over_sbx: float  # claims: at least so many times the peer's speed
    over_sb3: float | None


SMALL = {"hidden": 256, "batch": 256, "prefill": 512, "row": 64, "turn_s": 3.0, "over_sbx": 1.25, "over_sb3": 2.5}
CASES = {
    "small-1": Case(**SMALL, num_envs=1, updates=1),
    "small-8": Case(**SMALL, num_envs=8, updates=8),
    "large": Case(
        num_envs=64,
        hidden=512,
        batch=8192,
        updates=1,
        prefill=8192,
        row=128,
        turn_s=8.0,
        over_sbx=3.0,
        over_sb3=None,
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of progress."""

    env_steps: int
    seconds: float  # since the row before, whatever held the run meanwhile included
    updates: float  # since the row before


def main() -> int:
    """Speeds by case and program, and the claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    end_in_order()
    results: dict[str, dict[str, float]] = {}
    claims: dict[str, tuple[float, float]] = {}
    for name in args.cases:
        speeds = measured(CASES[name], args.repeats)
        results |= {f"{name}, {program}": figures(speeds, program) for program in speeds}
        claims |= claimed(name, CASES[name], speeds)
    return harness.report("end_to_end", results, claims)


def measured(case: Case, repeats: int) -> dict[str, np.ndarray]:
    """[repeats, 2] env steps/s and updates/s by program."""
    speeds: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        programs = {}
        for name in ("unilab bf16", "unilab fp32", "sbx fp32", "sb3 fp32"):
            programs[name] = started(name, case, Path(folder))
            stack.callback(programs[name].program.end)
            programs[name].until_steady(case)
        for _ in range(repeats):
            for name, one in programs.items():
                speeds.setdefault(name, []).append(one.turn(case.turn_s))
    return {name: np.array(values) for name, values in speeds.items()}


def figures(speeds: dict[str, np.ndarray], program: str) -> dict[str, float]:
    """Medians and quartiles of a program, and the speed of unilab bf16 over its own, turn by turn."""
    low, middle, high = np.percentile(speeds[program][:, 0], [25, 50, 75])
    return {
        "env_steps_per_s": float(middle),
        "q25": float(low),
        "q75": float(high),
        "updates_per_s": float(np.median(speeds[program][:, 1])),
        "unilab_bf16_over_it": ratio(speeds, "unilab bf16", program),
        "unilab_fp32_over_it": ratio(speeds, "unilab fp32", program),
    }


def ratio(speeds: dict[str, np.ndarray], ours: str, theirs: str) -> float:
    """Median over the repeats of the ratio of env steps/s."""
    return float(np.median(speeds[ours][:, 0] / speeds[theirs][:, 0]))


def claimed(name: str, case: Case, speeds: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The peers' speeds over that of unilab with bfloat16 products, and what they may be."""
    allowed = {"sbx fp32": case.over_sbx} | ({"sb3 fp32": case.over_sb3} if case.over_sb3 else {})
    return {
        f"{name}: {peer} / unilab bf16, env steps/s": (1 / ratio(speeds, "unilab bf16", peer), 1 / least)
        for peer, least in allowed.items()
    }


class Runner:
    """A program that takes turns.

    Args:
        name: for messages.
        program: running.
        progress: where its rows appear.
    """

    def __init__(self, name: str, program: Program, progress: Path) -> None:
        self.program = program
        self._name = name
        self._progress = progress

    def until_steady(self, case: Case) -> None:
        """Let it run until the third row after updates began, and hold it."""
        deadline = time.monotonic() + START_S
        while sum(row.updates > 0 and row.env_steps > 2 * case.prefill for row in self._rows()) < 3:
            self._check(deadline)
            time.sleep(LOOK_S)
        self.program.hold()

    def turn(self, seconds: float) -> tuple[float, float]:
        """Let it run for some seconds, and longer until there is something to see; env steps/s and updates/s."""
        before = len(self._rows())
        self.program.go_on()
        deadline = time.monotonic() + START_S
        time.sleep(seconds)
        while (speed := speed_of(self._rows()[before:])) is None:
            self._check(deadline)
            time.sleep(LOOK_S)
        self.program.hold()
        return speed

    def _check(self, deadline: float) -> None:
        if self.program.exit_code is not None or time.monotonic() > deadline:
            raise SystemExit(f"{self._name} is not getting on:\n{self.program.last_words()}")

    def _rows(self) -> list[Row]:
        return read_rows(self._progress)


def speed_of(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Env steps and updates over wall time between the second and the last row of a turn; None if there are too few.

    The time in which the run was held is in the first row, or in the second where the first had been on its way to the
    file when the run was held.

    Args:
        rows: that appeared since the turn began.
    """
    inside = rows[2:]
    if len(inside) < 2:
        return None
    seconds = sum(row.seconds for row in inside)
    return (inside[-1].env_steps - rows[1].env_steps) / seconds, sum(row.updates for row in inside) / seconds


def read_rows(path: Path) -> list[Row]:
    """Whole rows of a progress file; none before it exists."""
    if not path.exists():
        return []
    text = path.read_text()
    found: list[Row] = []
    last = None
    for line in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        steps = int(line["env_steps"])
        if last is not None and line["time/fps"]:
            seconds = (steps - last) / float(line["time/fps"])
            found.append(Row(steps, seconds, seconds * float(line["perf/updates_per_s"])))
        last = steps
    return found


def started(name: str, case: Case, folder: Path) -> Runner:
    """Start one of the four."""
    program, precision = name.split()
    work = folder / program / precision
    work.mkdir(parents=True)
    if program == "unilab":
        progress = work / "HalfCheetah-v5" / "sac" / "run" / "progress.csv"
        return Runner(name, Program(unilab_words(case, precision, work), work / "console.txt"), progress)
    asked = PeerRun(
        peer=peer_of(program, case),
        env="HalfCheetah-v5",
        seed=0,
        total_steps=ENDLESS,
        every=case.row,
        progress=str(work / "progress.csv"),
    )
    asked.write(work / "spec.json")
    words = [sys.executable, str(REPOSITORY / "benchmarks/peers.py"), str(work / "spec.json")]
    return Runner(name, Program(words, work / "console.txt"), work / "progress.csv")


def unilab_words(case: Case, precision: str, work: Path) -> list[str]:
    """The command line of a run."""
    width = str(case.hidden)
    options = {
        "--algo": "sac",
        "--preset": "sb3",
        "--env": "HalfCheetah-v5",
        "--compile": "on",
        "--precision": precision,
        "--num-envs": str(case.num_envs),
        "--utd": str(case.updates / case.num_envs),
        "--batch-size": str(case.batch),
        "--learning-starts": str(case.prefill),
        "--total-steps": str(ENDLESS),
        "--log-every": str(case.row),
        "--eval-every": "0",
        "--eval-episodes": "0",
        "--stall-limit-s": "3600",
        "--log-dir": str(work),
        "--name": "run",
    }
    words = [word for pair in options.items() for word in pair]
    return [sys.executable, str(REPOSITORY / "scripts/train.py"), *words, "--hidden", width, width]


def peer_of(library: str, case: Case) -> Peer:
    """The same recipe, in the library's own names; learning rate and the rest are the defaults of both."""
    return Peer(
        library=library,  # type: ignore[arg-type]
        algo="SAC",
        num_envs=case.num_envs,
        settings={"batch_size": case.batch, "gradient_steps": case.updates, "learning_starts": case.prefill},
        policy={"net_arch": [case.hidden, case.hidden]},
    )


if __name__ == "__main__":
    sys.exit(main())

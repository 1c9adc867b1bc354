"""Who reaches a return first? Return against wall time, unilab beside Stable-Baselines3 and SBX.

    python benchmarks/bench_time_to_return.py --env HalfCheetah-v5 --threshold 5000 --seeds 1 2 3
    python benchmarks/bench_time_to_return.py --env Pendulum-v1 --contenders unilab sbx

The peers need `pip install -c constraints.txt -e '.[bench]'`. Every run is a process of its own with the whole machine,
contenders in turn, seed by seed; a run that is in --out already is not made again.

The clock starts before the process does, so it has imports, compiling and prefill in it (``--cache cold``, the default:
no compiled code is left from an earlier run). Every snapshot of the policy is judged on the spot by one judge
(``judge.py``), while the run is held and its clock stands; a snapshot's time is when its file appeared under its name.
Writing it is on the clock, for unilab with the replay: its snapshots are its checkpoints. A run ends at the first
snapshot that reaches the threshold, at its limit of seconds, or with its env steps.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import harness
from contenders import TASKS, Contender, contenders, pick
from curves import Run, draw, is_enough, table
from judge import Judge
from peers import PeerRun
from processes import Program, end_in_order

from unilab.checkpoint import list_checkpoints, steps_of
from unilab.rundir import write_json

REPOSITORY = Path(__file__).resolve().parent.parent
LOOK_S = 0.05


def main() -> int:
    """Run what is missing, print the table, draw, write the JSON file."""
    end_in_order()
    args = arguments()
    task = TASKS[args.env]
    chosen = pick(contenders(args.env), args.contenders)
    runs: list[Run] = []
    for seed in args.seeds:
        for contender in chosen:
            runs.append(once(contender, seed, args))
            print(said(runs[-1]), flush=True)
    lines, results = table(chosen, runs, args.threshold)
    print("\n".join(lines))
    name = f"time_to_return_{args.env}" + ("" if args.cache == "cold" else "_warm")
    draw(chosen, runs, args.threshold, args.out / f"{name}.png", args.env)
    settings = {"task": asdict(task), **{key: str(value) for key, value in vars(args).items()}}
    content = {"results": results, "runs": [asdict(run) for run in runs], "settings": settings}
    write_json(args.out / f"{name}.json", content | harness.machine())
    return 0


def arguments() -> argparse.Namespace:
    """The options, the env's own defaults in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v5", choices=sorted(TASKS))
    parser.add_argument("--threshold", type=float, help="of the mean return")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit-s", type=float, help="seconds of clock that a run may take")
    parser.add_argument("--contenders", nargs="*", default=[], help="beginnings of names; default: all")
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold", help="warm: keep compiled code in --out")
    parser.add_argument("--out", type=Path, default=harness.RESULTS / "time_to_return")
    args = parser.parse_args()
    args.threshold = TASKS[args.env].threshold if args.threshold is None else args.threshold
    args.limit_s = TASKS[args.env].limit_s if args.limit_s is None else args.limit_s
    return args


def said(run: Run) -> str:
    """A line about a run."""
    end = f"{run.curve[-1].mean:.0f} after {run.curve[-1].time_s:.1f} s" if run.curve else "no snapshot"
    return f"{run.contender} seed {run.seed}: {end}, {run.ended} ({run.clock_s:.1f} s, judged for {run.held_s:.1f} s)"


def once(contender: Contender, seed: int, args: argparse.Namespace) -> Run:
    """One run, or what is there of it from before."""
    folder = args.out / args.env / (contender.name if args.cache == "cold" else f"{contender.name}-warm")
    file = folder / f"s{seed}.json"
    asked = json.loads(json.dumps(asdict(contender)))
    if file.exists():
        content = json.loads(file.read_text())
        if content["asked"] == asked and is_enough(run := Run.of(content["run"]), args.threshold, args.limit_s):
            return run
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f"s{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    run = measured(contender, seed, args, work)
    write_json(file, {"asked": asked, "run": asdict(run)} | harness.machine())
    shutil.rmtree(work)
    return run


def measured(contender: Contender, seed: int, args: argparse.Namespace, work: Path) -> Run:
    """Run one contender until it is there; the judge is ready before the clock starts."""
    task = TASKS[args.env]
    judge = Judge(args.env, task.episodes, seed, contender.peer)
    snapshots, words = command(contender, seed, args.env, work)
    run = Run(contender=contender.name, seed=seed, ended="limit", clock_s=0.0, held_s=0.0, load_before=harness.load())
    with caches(args.cache, work.parent / "cache") as env:
        program = Program(words, work / "console.txt", env)
        try:
            follow(program, snapshots, judge, run, args)
        finally:
            program.end()
    if run.ended == "end" and program.exit_code != 0:
        raise SystemExit(f"{contender.name} seed {seed} ended with {program.exit_code}:\n{program.last_words()}")
    return run


def follow(program: Program, snapshots: Path, judge: Judge, run: Run, args: argparse.Namespace) -> None:
    """Judge every snapshot of a run, in order, until it is done."""
    judged: set[Path] = set()
    while True:
        over = program.exit_code is not None
        new = [path for path in found(snapshots) if path not in judged]
        if new:
            program.hold()
            began_s = time.monotonic()
            for path in new:
                judged.add(path)
                reached = run.add(steps(path), program.clock(path.stat().st_ctime), judge.returns(path), args.threshold)
                if reached:
                    run.ended = "threshold"
                    break
            run.held_s += time.monotonic() - began_s
            program.go_on()
        run.clock_s = program.clock()
        if run.ended == "threshold" or run.clock_s > args.limit_s:
            return
        if over:
            run.ended = "end"
            return
        time.sleep(LOOK_S)


def command(contender: Contender, seed: int, env: str, work: Path) -> tuple[Path, list[str]]:
    """Where its snapshots appear, and the words of its process."""
    task = TASKS[env]
    total_steps, every = (contender.spread * steps for steps in (task.total_steps, task.every))
    if contender.peer is None:
        words = [sys.executable, str(REPOSITORY / "scripts/train.py"), *contender.options, "--env", env]
        words += ["--seed", str(seed), "--total-steps", str(total_steps), "--save-every", str(every)]
        # No evaluation of its own, as the peers have none; the judge may hold it for a while.
        words += ["--eval-every", "0", "--eval-episodes", "0", "--stall-limit-s", "3600"]
        algo = contender.options[contender.options.index("--algo") + 1]
        return work / env / algo / "run" / "checkpoints", [*words, "--log-dir", str(work), "--name", "run"]
    snapshots = work / "snapshots"
    snapshots.mkdir()
    asked = PeerRun(
        peer=contender.peer,
        env=env,
        seed=seed,
        total_steps=total_steps,
        every=every,
        snapshots=str(snapshots),
    )
    asked.write(work / "spec.json")
    return snapshots, [sys.executable, str(REPOSITORY / "benchmarks/peers.py"), str(work / "spec.json")]


def found(folder: Path) -> list[Path]:
    """Snapshots that are whole, oldest first."""
    if not folder.is_dir():
        return []
    return sorted([*folder.glob("*.pickle"), *list_checkpoints(folder)], key=steps)


def steps(snapshot: Path) -> int:
    """Env steps that its run had made."""
    return int(snapshot.stem) if snapshot.suffix == ".pickle" else steps_of(snapshot)


@contextmanager
def caches(kind: str, kept: Path) -> Iterator[dict[str, str]]:
    """Where a run's compiled code goes: a place of its own, empty or as its last run left it."""
    with tempfile.TemporaryDirectory() as fresh:
        place = Path(fresh) if kind == "cold" else kept.resolve()
        yield {"TORCHINDUCTOR_CACHE_DIR": str(place / "inductor")} | (
            {"JAX_COMPILATION_CACHE_DIR": str(place / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            if kind == "warm"
            else {}
        )


if __name__ == "__main__":
    sys.exit(main())

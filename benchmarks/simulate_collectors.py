"""How would 1 to 128 collectors do, in lockstep and free-running, and what gives out first?

    python benchmarks/bench_collectors.py        # first: whole runs, whose parts the simulation is calibrated by
    python benchmarks/simulate_collectors.py     # then this, a minute or two

Simulated times, but the pacers, counters and schedule are those of a run (``pacing_world``), so who waits for whom is
not modelled but done. Durations come from this machine (``collector_costs``). Each process has a core to itself: that
is what a machine with more cores would give.

The runs with two and more collectors take no part in that: they are what the simulation is held to.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from bench_collectors import ENVS_EACH, UTD, Figures, cases
from collector_costs import COUNTS, PACINGS, Costs, Env, Runs, calibrate, schedule_of
from harness import RESULTS, report
from pacing_world import World

CHUNKS = 40  # of each collector; more where they are few
LEAST_CHUNKS = 600
CLOSE = 0.1
FULL = 0.95  # share of time from which on the learner is what bounds the speed
UTDS = (UTD, UTD / 32)  # as measured, where updates are most of the work, and where they are little of it
ENVS = (
    *(Env(step_ms, jitter, utd) for utd in UTDS for step_ms in (1.0, 8.0) for jitter in (False, True)),
    Env(1.0, True, UTDS[1], rounds=16),
)


def main() -> int:
    """Calibrate, hold to what was measured, simulate, draw, and say what gives out first."""
    measured = runs_measured()
    costs = {pacing: calibrate(pacing, measured) for pacing in PACINGS}
    checks = validate(costs, measured)
    found = {
        (env, pacing): [simulate(env, n, pacing, costs[pacing]) for n in COUNTS] for env in ENVS for pacing in PACINGS
    }
    results: dict[str, Any] = {f"costs, us, {pacing}": flat(costs[pacing]) for pacing in PACINGS} | checks
    for (env, pacing), rows in found.items():
        results |= {f"{env.name}, {pacing}, {n} collectors": row for n, row in zip(COUNTS, rows, strict=True)}
    # Four collectors and a learner have no core each on a machine of two: those are shown, and not claimed.
    off = [abs(row["measured / simulated"] - 1) for row in checks.values() if row["collectors"] <= 2]
    claims = {"measured / simulated, largest difference from 1, one and two collectors": (max(off), CLOSE)}
    failed = report("simulated_collectors", results, claims)
    for (env, pacing), rows in found.items():
        print(f"  {env.name}, {pacing}: {verdict(rows)}")
    draw(found)
    return failed


def runs_measured() -> Runs:
    """The results of bench_collectors.py that are whole runs of sleeping envs."""
    path = RESULTS / "collectors.json"
    if not path.exists():
        sys.exit(f"{path} is not there: run benchmarks/bench_collectors.py first")
    results = json.loads(path.read_text())["results"]
    return {case: results[case.name] for case in cases() if case.kind != "computing"}


def simulate(env: Env, collectors: int, pacing: str, costs: Costs) -> Figures:
    """One run: env steps/s, how much of what the envs would give, and what the learner's time went into."""
    free, rng = pacing == "free", random.Random(0)
    chunks = max(CHUNKS, LEAST_CHUNKS // collectors)
    schedule = schedule_of(env, collectors, pacing, chunks * (collectors if free else 1))
    spent: dict[str, float] = {}
    starts: list[float] = []

    def collect_s(i: int) -> float:
        step_s = env.step_ms / 1e3
        steps_s = rng.gammavariate(env.rounds, step_s) if env.jitter else env.rounds * step_s
        return steps_s + costs.chunk(collectors, env.rounds, free) / 1e6

    def learn_s() -> float:
        tick = costs.tick(collectors, schedule.updates(world.seen.ticks), free)
        if world.seen.ticks > schedule.total_ticks // 5:
            for name, us in tick.items():
                spent[name] = spent.get(name, 0.0) + us / 1e6
        return sum(tick.values()) / 1e6

    def taking(world: World, tick: int) -> None:
        starts.append(world.now)

    world = World(schedule, collect_s, learn_s, wake_s=costs.wake / 1e6, taking=taking)
    try:
        world.run()
    finally:
        world.free()
    first = schedule.total_ticks // 5
    wall_s = starts[-1] - starts[first]
    speed = (len(starts) - 1 - first) * schedule.chunk_rows / wall_s
    shares = {name: seconds / wall_s for name, seconds in spent.items()}
    expected = 1e3 * ENVS_EACH * collectors / env.step_ms
    wait = max(0.0, 1 - sum(shares.values()))
    return {"env_steps_per_s": speed, "of_expected": speed / expected, "learner_wait": wait} | shares


def validate(costs: dict[str, Costs], measured: Runs) -> dict[str, Figures]:
    """Each measured run next to its simulation."""
    checks = {}
    for case, row in measured.items():
        cost = costs[case.pacing]
        # Some hundred exponential times have a mean of their own; that is no question to a simulation.
        step_ms = (row["step_us"] - cost.late) / 1e3 if case.kind == "jittery" else case.step_ms
        simulated = simulate(Env(step_ms, case.kind == "jittery"), case.collectors, case.pacing, cost)
        checks[f"check: {case.name}"] = {
            "collectors": case.collectors,
            "measured": row["env_steps_per_s"],
            "simulated": simulated["env_steps_per_s"],
            "measured / simulated": row["env_steps_per_s"] / simulated["env_steps_per_s"],
        }
    return checks


def verdict(rows: list[Figures]) -> str:
    """From how many collectors on more of them bring nothing, and why."""
    for n, row in zip(COUNTS, rows, strict=False):
        if row["learner_wait"] < 1 - FULL:
            parts = {name: row[name] for name in ("updates", "publish", "bookkeeping", "gather")}
            most = max(parts, key=lambda name: parts[name])
            return (
                f"the learner is full with {n} ({row['env_steps_per_s']:,.0f} env steps/s); "
                f"{100 * parts[most] / sum(parts.values()):.0f} % of it is {most}"
            )
    tried, last = COUNTS[len(rows) - 1], rows[-1]
    waits = f"it waits {100 * last['learner_wait']:.0f} % of its time"
    return f"not full with {tried} ({last['env_steps_per_s']:,.0f} env steps/s; {waits})"


def flat(costs: Costs) -> Figures:
    """For the table: those by number of collectors at both ends."""
    ends = {f"{name} of {n}": getattr(costs, name)[n] for name in ("books", "gather") for n in (COUNTS[0], COUNTS[-1])}
    plain = ("update", "publish", "own", "fetch", "round", "late", "wake")
    return {name: getattr(costs, name) for name in plain} | ends


def draw(found: dict[tuple[Env, str], list[Figures]]) -> None:
    """Env steps/s over the number of collectors; one picture for each utd."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(UTDS), figsize=(11, 4.5), constrained_layout=True)
    colors = {env.name.partition(",")[0]: f"C{i}" for i, env in enumerate([*ENVS[:4], ENVS[-1]])}
    for (env, pacing), rows in found.items():
        kind = env.name.partition(",")[0]
        speeds, style = [row["env_steps_per_s"] for row in rows], "s-" if pacing == "free" else "o--"
        axes[UTDS.index(env.utd)].loglog(COUNTS, speeds, style, color=colors[kind], label=f"{kind}, {pacing}", ms=4)
    for axis, utd in zip(axes, UTDS, strict=True):
        axis.set(xlabel="collectors, four envs each", title=f"env steps/s, simulated, utd {utd:g}")
        axis.set_xticks(COUNTS, [str(n) for n in COUNTS])
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.savefig(RESULTS / "simulated_collectors.png", dpi=110)


if __name__ == "__main__":
    sys.exit(main())

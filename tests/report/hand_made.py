"""Traces by hand, in milliseconds, whose numbers can be worked out on paper."""

import json

ROLES = {"learner": 1, "collector-0": 2}


def names():
    return [
        {"ph": "M", "name": kind, "pid": pid, "tid": pid, "ts": 0, "args": {"name": name}}
        for role, pid in ROLES.items()
        for kind, name in (("process_name", role), ("thread_name", "main"))
    ]


def span(role, name, start, end, **args):
    pid = ROLES[role]
    return {
        "ph": "X",
        "name": name,
        "ts": start * 1e3,
        "dur": (end - start) * 1e3,
        "pid": pid,
        "tid": pid,
        "args": args,
    }


def period(at, tick):
    """10 ms in which the learner waits 2, updates 6, and the collector works 9.

    The collector starts the next chunk when it is granted (3) and has packed it 2 ms into the next tick.
    """
    return [
        span("learner", "tick", at, at + 10, tick=tick),
        span("learner", "wait_batch", at, at + 2),
        span("learner", "grant", at + 2, at + 3),
        span("learner", "update", at + 3, at + 9, tick=tick),
        span("learner", "publish", at + 9, at + 10, version=tick),
        span("collector-0", "wait_grant", at + 2, at + 3),
        span("collector-0", "chunk", at + 3, at + 12, chunk=tick + 1),
        span("collector-0", "act", at + 3, at + 4),
        span("collector-0", "env_step", at + 4, at + 10),
        span("collector-0", "pack", at + 10, at + 12, tick=tick + 1),
    ]


def run_facts(**changes):
    facts = {"env": "X-v0", "algo": "sac", "device": "cpu", "num_envs": 4, "rows_per_tick": 8, "utd": 0.5} | changes
    return {"ph": "i", "name": "run", "pid": 1, "tid": 1, "ts": 0, "args": facts}


def write(path, ticks, *, more=()):
    """A trace of these ticks, each starting at 10 ms times its number."""
    before = span("collector-0", "pack", 10 * ticks[0], 10 * ticks[0] + 2, tick=ticks[0])
    events = [*names(), run_facts(), before, *(e for tick in ticks for e in period(10 * tick, tick)), *more]
    path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]")
    return path

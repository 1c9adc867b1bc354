"""How long does it take to wake another process, with a bell over an eventfd and over a pipe?"""

from __future__ import annotations

import sys
import time

import numpy as np
from harness import report, summarise

from unilab.shm import Bell, Counters, Waiter
from unilab.workers import Link, Worker

ROUNDS = 2_000


def main() -> int:
    """Half of a round trip between two processes that have nothing else to do."""
    return report("wake", {f"one way, {kind}": summarise(one_way_s(kind == "eventfd")) for kind in ("eventfd", "pipe")})


def one_way_s(use_eventfd: bool) -> np.ndarray:
    """Seconds of each wake, [ROUNDS]."""
    here, there = Bell(use_eventfd=use_eventfd), Bell(use_eventfd=use_eventfd)
    counters = Counters(["ping", "pong"])
    worker = Worker("echo", echo, (counters, here, there), threads=1, bell=here)
    waiter = Waiter(here, peers=worker.peers())
    worker.wait_message("ready", waiter, "the echo process", 60.0)
    seconds = np.empty(ROUNDS)
    for i in range(ROUNDS):
        began = time.perf_counter()
        counters["ping"] = i + 1
        there.ring()
        waiter.wait(lambda turn=i + 1: counters["pong"] == turn, "the echo")
        seconds[i] = (time.perf_counter() - began) / 2
    worker.stop(5.0)
    return seconds[ROUNDS // 10 :]


def echo(link: Link, counters: Counters, there: Bell, here: Bell) -> None:
    """Answer every ping."""
    waiter = Waiter(here, peers=[link.parent()])
    link.send("ready")
    for i in range(ROUNDS):
        waiter.wait(lambda turn=i + 1: counters["ping"] == turn, "a ping")
        counters["pong"] = i + 1
        there.ring()


if __name__ == "__main__":
    sys.exit(main())

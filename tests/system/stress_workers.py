"""What the processes of the torn-read tests run."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import nn

from unilab.envs.base import EnvStep
from unilab.pacing import ChunkSource, FreeCollector, LockstepCollector, Schedule
from unilab.replay import Ring
from unilab.shm import Bell, Counters, Waiter
from unilab.weights import FlatState, WeightBlock, WeightReader, WeightWriter
from unilab.workers.child import Link

TENSORS, VALUES = 31, 300_000
RINGS = 4


def policy_like() -> nn.Module:
    """31 entries of unequal size, 300,000 values: parameters and buffers."""
    module = nn.Module()
    sizes = np.full(TENSORS, VALUES // TENSORS)
    sizes[-1] += VALUES - sizes.sum()
    for i, size in enumerate(sizes.tolist()):
        if i % 3:
            module.register_parameter(f"p{i}", nn.Parameter(torch.zeros(size)))
        else:
            module.register_buffer(f"b{i}", torch.zeros(size))
    return module


def write_constants(link: Link, block: WeightBlock, counters: Counters) -> None:
    """Publish version v with every value v, as fast as possible, until told to stop."""
    state = FlatState(policy_like())
    writer = WeightWriter(block, state)
    values = state.buffer.view(torch.float32)
    version = 0
    while not counters["stop"]:
        values.fill_(float(version))
        writer.publish(version)
        version += 1
    link.send("last", version - 1)


def read_constants(link: Link, block: WeightBlock, counters: Counters) -> None:
    """Fetch as fast as possible; report complaints, the number of snapshots and the longest fetch."""
    state = FlatState(policy_like())
    reader = WeightReader(block, state)
    entries = [state.view(entry) for entry in state.manifest.entries]
    complaints, last, count, longest = [], -1, 0, 0.0
    while not counters["stop"]:
        began = time.perf_counter()
        version = reader.fetch_if_newer()
        longest = max(longest, time.perf_counter() - began)
        if version < 0 or version == last:
            continue
        count += 1
        if version < last:
            complaints.append(f"version went back from {last} to {version}")
        if not all((entry == version).all() for entry in entries):
            complaints.append(f"snapshot {version} is mixed")
        last = version
    link.send("report", (complaints, count, longest, reader.fetch_if_newer()))


def row_values(number: np.ndarray, width: int) -> np.ndarray:
    """[n, width] float32 that only row ``number`` may hold; the last value is a checksum of the others."""
    base = (number % 1_000_003).astype(np.float64)[:, None]
    values = np.floor(base * (1 + np.arange(width - 1)) * 0.37) % 4096
    return np.hstack([values, values.sum(1, keepdims=True)]).astype(np.float32)


def append_checksummed(
    link: Link, ring: Ring, schedule: Schedule, counters: Counters, bell: Bell, listener: Bell
) -> None:
    """Run granted chunks of rows that follow ``row_values``."""
    waiter = Waiter(bell, lambda: bool(counters["stop"]), [link.parent()])
    append_chunks(LockstepCollector(schedule, counters, waiter, [listener]), ring, schedule.num_envs, rings=1)


def append_freely(link: Link, ring: Ring, share: Schedule, counters: Counters, bell: Bell, listener: Bell) -> None:
    """The same free-running, beside other rings: a row says its ring too."""
    waiter = Waiter(bell, lambda: bool(counters["stop"]), [link.parent()])
    source = FreeCollector(share, counters, waiter, [listener], latest=lambda: 0)
    append_chunks(source, ring, share.num_envs, rings=RINGS)


def append_chunks(source: ChunkSource, ring: Ring, n: int, rings: int) -> None:
    """Chunk after chunk: row r of ring i of several holds ``row_values`` of r rings + i."""
    number = 0
    while (chunk := source.next_chunk()) is not None:
        for _ in range(chunk.rounds):
            obs = row_values(np.arange(number, number + n) * rings + ring.index, ring.layout.obs_dim)
            step = EnvStep(
                obs={"obs": obs},
                reward=obs[:, -1],
                terminated=np.zeros(n, np.bool_),
                truncated=np.ones(n, np.bool_),
                next_obs={"obs": obs},
            )
            ring.append({"obs": obs}, obs[:, :1], step, policy_version=chunk.number)
            number += n
            source.round_done()
        source.finished(chunk)

"""What does it cost to publish and to fetch a policy, next to one memcpy of the same bytes?"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import torch
from harness import interleaved, report, summarise
from torch import nn

from unilab.weights import FlatState, WeightBlock, WeightReader, WeightWriter


def main() -> int:
    """Actor of HalfCheetah with two hidden layers of 256: 287 KiB."""
    torch.set_num_threads(1)

    def policy() -> nn.Module:
        return nn.Sequential(nn.Linear(17, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 12))

    source, target = FlatState(policy()), FlatState(policy())
    block = WeightBlock(source.manifest)
    writer, reader = WeightWriter(block, source), WeightReader(block, target)
    versions = iter(range(10**9))
    # The yardstick writes two places in turn, as the block does: whether they fit into the cache decides a lot.
    here = np.ones(source.manifest.nbytes, np.uint8)
    there = itertools.cycle([np.zeros_like(here), np.zeros_like(here)])

    def publish() -> None:
        writer.publish(next(versions))

    def fetch() -> None:
        reader.version = -1  # as if the newest version were news
        reader.fetch_if_newer()

    seconds = interleaved({"memcpy": lambda: np.copyto(next(there), here), "publish": publish, "fetch": fetch})
    once = float(np.median(seconds["memcpy"]))
    return report(
        "weights",
        {f"{name} {source.manifest.nbytes / 1024:.0f} KiB": summarise(s) for name, s in seconds.items()},
        {
            f"{name} within 2x of one memcpy": (float(np.median(seconds[name])) / once, 2.0)
            for name in ("publish", "fetch")
        },
    )


if __name__ == "__main__":
    sys.exit(main())

"""Shared memory, counters and waiting between processes; nothing here knows about learning."""

from unilab.shm.arrays import Arrays, Field
from unilab.shm.counters import Counters
from unilab.shm.segment import Block
from unilab.shm.signals import Bell, Peer, Waiter

__all__ = ["Arrays", "Bell", "Block", "Counters", "Field", "Peer", "Waiter"]

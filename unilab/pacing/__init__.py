"""Pacing: the counts of a run, and who waits for whom."""

from unilab.pacing.base import COUNTERS, IDLE, PHASES, ChunkSource, Line, Pacer, PacingConfig, check_pacing
from unilab.pacing.free import FreeCollector, FreeRunning
from unilab.pacing.lockstep import Lockstep, LockstepCollector, SerialLockstep
from unilab.pacing.schedule import NEWEST, Chunk, Schedule
from unilab.pacing.waiting import Look, Pulse, wait_while_alive

__all__ = [
    "COUNTERS",
    "IDLE",
    "NEWEST",
    "PHASES",
    "Chunk",
    "ChunkSource",
    "FreeCollector",
    "FreeRunning",
    "Line",
    "Lockstep",
    "LockstepCollector",
    "Look",
    "Pacer",
    "PacingConfig",
    "Pulse",
    "Schedule",
    "SerialLockstep",
    "check_pacing",
    "wait_while_alive",
]

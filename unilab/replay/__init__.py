"""The packed replay ring: rows, not algorithms."""

from unilab.replay.host_slots import HostSlots
from unilab.replay.layout import RowLayout
from unilab.replay.n_step import Rows, make_rows
from unilab.replay.pack import Domain, Packed, pack
from unilab.replay.ranges import Replay
from unilab.replay.ring import ReplayConfig, Ring
from unilab.replay.samplers import UniformSampler

__all__ = [
    "Domain",
    "HostSlots",
    "Packed",
    "Replay",
    "ReplayConfig",
    "Ring",
    "RowLayout",
    "Rows",
    "UniformSampler",
    "make_rows",
    "pack",
]

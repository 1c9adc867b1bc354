"""Multiprocess, shared-memory, off-policy reinforcement learning for robot control."""

__version__ = "0.1.0"

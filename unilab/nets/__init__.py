"""Torch modules without losses: what is computed, never why."""

"""Environments behind one contract: batched arrays in, true successors out."""

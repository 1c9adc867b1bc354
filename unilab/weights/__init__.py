"""Policy weights from the learner to everyone who acts."""

from unilab.weights.block import WeightBlock, WeightReader, WeightWriter
from unilab.weights.flatten import FlatState, Manifest

__all__ = ["FlatState", "Manifest", "WeightBlock", "WeightReader", "WeightWriter"]

"""Checkpoints: one self-contained directory each, whole or not there."""

from unilab.checkpoint.find import Found, find_checkpoint
from unilab.checkpoint.folder import checkpoint_name, list_checkpoints, steps_of
from unilab.checkpoint.load import load_checkpoint, load_replay, preload, preloadable
from unilab.checkpoint.meta import SCHEMA, read_meta
from unilab.checkpoint.model_file import is_model_file, load_state, save_model
from unilab.checkpoint.store import Checkpoints
from unilab.checkpoint.verify import verify

__all__ = [
    "SCHEMA",
    "Checkpoints",
    "Found",
    "checkpoint_name",
    "find_checkpoint",
    "is_model_file",
    "list_checkpoints",
    "load_checkpoint",
    "load_replay",
    "load_state",
    "preload",
    "preloadable",
    "read_meta",
    "save_model",
    "steps_of",
    "verify",
]

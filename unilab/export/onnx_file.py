"""Module to ONNX and back to numbers; the only place that knows the packages for it."""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unilab.errors import ConfigError

OPSET = 23
"""Of ONNX 1.18 (2025): what the exporter writes without a conversion and current runtimes read."""

KEY = "unilab"
"""Of the model's own metadata: the content of ``metadata.json``."""

Act = Callable[[Mapping[str, NDArray[np.float32]]], NDArray[np.float32]]
"""An exported policy: inputs [n, width] by name to actions [n, action_dim] in env units."""

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")


def require_onnx() -> None:
    """Refuse early where nothing can be exported.

    Raises:
        ConfigError: says what to install.
    """
    for package in _PACKAGES:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ConfigError(
                f"export needs the package {package} ({error}); pip install -e '.[export]', or "
                f"'pip install {' '.join(_PACKAGES)}'"
            ) from error


def to_onnx(module: nn.Module, inputs: Mapping[str, int], metadata: Mapping[str, Any]) -> bytes:
    """The module as one ONNX file, weights inside.

    Args:
        module: inputs [B, width] float32, in order, to [B, action_dim] float32.
        inputs: their names and widths; its output is ``action``. B is free.
        metadata: goes into the file as JSON.
    """
    batch = torch.export.Dim("batch")
    with _quiet():
        program = torch.onnx.export(
            module,
            tuple(torch.zeros(2, width) for width in inputs.values()),  # 1 would be taken for a constant
            dynamo=True,
            input_names=list(inputs),
            output_names=["action"],
            dynamic_shapes=(tuple({0: batch} for _ in inputs),),
            opset_version=OPSET,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    _forget_sources(model.graph)
    model.metadata_props.add(key=KEY, value=json.dumps(metadata, allow_nan=False))
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def session(content: bytes) -> Act:
    """What the file computes, on one thread of the CPU; inputs [n, width] by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    loaded = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def act(inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        action: NDArray[np.float32] = loaded.run(["action"], dict(inputs))[0]
        return action

    return act


def _forget_sources(graph: Any) -> None:
    """Drop the lines of Python that each part came from, with the paths of this machine."""
    for part in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's words about packages that are not needed here and about torch's own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

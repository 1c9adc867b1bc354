"""Chrome trace events on disk: one part file a process while the run goes on, one ``trace.json`` at its end.

A part is JSON lines, so that a killed process leaves all but its last line readable. ``ts`` and ``dur`` are
in microseconds. Source: Trace Event Format, and what Perfetto accepts of it.
"""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import os
import threading
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path

PARTS = ".trace"

quote = json.encoder.encode_basestring_ascii  # a JSON string; json.dumps takes six times as long


class PartFile:
    """One process's events; any of its threads may write."""

    def __init__(self, run_dir: Path, process: str, max_bytes: int) -> None:
        folder = run_dir / PARTS
        self._file: FileIO | None = None  # where it cannot be opened, all events are dropped
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(folder / f"{process}.jsonl", "wb", buffering=0)  # noqa: SIM115 - closed by close()
        self._lock = threading.Lock()
        self._left = max_bytes
        self._ids = f'"pid":{os.getpid()},"tid":{threading.get_native_id()}'
        self.dropped = 0
        self.write([event("M", '"process_name"', 0, self._ids, json_args({"name": process}))])

    def write(self, lines: list[str]) -> None:
        """Append whole lines, or count them as dropped: past the size limit, on a disk error, after close."""
        data = "".join(lines).encode()
        with self._lock:
            # Once something is lost, all that follows is: no event may claim that a gap was quiet.
            if self.dropped or len(data) > self._left or not self._append(data):
                self.dropped += len(lines)
            self._left -= len(data)

    def close(self, now_us: float) -> None:
        """Close; a part that was cut ends with an instant that says so, at ``now_us``."""
        with self._lock:
            if self._file is None:
                return
            if self.dropped:
                notice = quote(f"trace cut: {self.dropped} events dropped")
                # The newline first: what a full disk left of the line before must not swallow the notice.
                self._append(b"\n" + event("i", notice, now_us, self._ids, ',"s":"p"').encode())
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _append(self, data: bytes) -> bool:
        """A full disk ends the trace, not the run; the loss is counted and shown."""
        try:
            return self._file is not None and self._file.write(data) == len(data)
        except OSError:
            return False


def event(kind: str, json_name: str, ts_us: float, ids: str, rest: str = "") -> str:
    """One event as a JSON line; ``json_name``, ``ids`` and ``rest`` are JSON already."""
    return f'{{"ph":"{kind}","name":{json_name},"ts":{ts_us:.3f},{ids}{rest}}}\n'


def json_args(args: Mapping[str, object]) -> str:
    """``,"args":{...}``: strict JSON with scalars only."""
    return ',"args":{' + ",".join([f"{quote(key)}:{_scalar(value)}" for key, value in args.items()]) + "}"


def _scalar(value: object) -> str:
    """JSON of a scalar; NaN and infinities as words, a numpy number as a number, anything else by its type.

    Only its type's name is taken of a foreign object: to print a tensor would wait for its device.
    """
    kind = type(value)
    if kind is int:
        return repr(value)
    if kind is str:
        return quote(str(value))
    if value is None or kind is bool:
        return json.dumps(value)
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        return repr(number) if math.isfinite(number) else f'"{number}"'
    return quote(f"<{kind.__name__}>")


def clear_trace(run_dir: Path) -> None:
    """Remove the parts of an earlier start in the same directory: their clock is not this run's."""
    for part in (run_dir / PARTS).glob("*"):
        part.unlink()


def merge_trace(run_dir: Path) -> Path | None:
    """Make ``trace.json`` of all parts and remove them; None where there is no part (tracing was off).

    The processes that wrote the parts have ended. Lines that are no event (cut by a kill or a full disk) are
    left out. An older ``trace.json`` is replaced.

    Raises:
        OSError: it cannot be written; the parts stay.
    """
    folder = run_dir / PARTS
    parts = sorted(folder.glob("*.jsonl"))
    if not parts:
        return None
    aside = folder / "merged"
    target = run_dir / "trace.json"
    try:
        with open(aside, "w", encoding="ascii") as out:
            out.write('{"displayTimeUnit":"ms","traceEvents":[')
            separator = "\n"
            for part in parts:
                for line in _events(part):
                    out.write(separator + line)
                    separator = ",\n"
            out.write("\n]}\n")
        os.replace(aside, target)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
    for part in parts:
        part.unlink()
    with contextlib.suppress(OSError):  # another file in there is not ours to remove
        folder.rmdir()
    return target


def _events(part: Path) -> Iterator[str]:
    with open(part, encoding="ascii", errors="replace") as lines:
        for line in lines:
            text = line.strip()
            if _is_event(text):
                yield text


def _is_event(text: str) -> bool:
    try:
        value = _STRICT.decode(text)
    except ValueError:
        return False
    return isinstance(value, dict) and "ph" in value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse)

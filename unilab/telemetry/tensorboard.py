"""Scalars and histograms as a TensorBoard event file, over env steps.

Written here rather than by ``torch.utils.tensorboard``: that takes 0.15 s to import after torch, imports
TensorFlow where it is installed, starts a thread, and spends an event of its own on each scalar. The format
is small: length, checksum of the length, an ``Event`` message, its checksum (TFRecord). All scalars of one
step share one event.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from unilab.telemetry.lags import Histogram
from unilab.telemetry.linked import check_linked

_BUCKETS = 100  # of a histogram

FLOAT32_MAX = 3.4028234e38  # False for NaN and infinities too


class TensorBoardWriter:
    """One event file per start of a run; for one process.

    The file appears with the first scalar, so a run that never got that far leaves no empty one. Per tag,
    steps strictly grow: a value at or below the tag's last step is left out, and so is one that float32 has
    no finite number for (``progress.csv`` keeps both).
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        start_steps: int = 0,
        flush_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; touches no file yet.

        Args:
            run_dir: where the event file goes.
            start_steps: env steps of the checkpoint that the run continues from; TensorBoard is told to hide
                what earlier files hold beyond it. 0: a new run.
            flush_s: the longest that written scalars stay in this process, in seconds, while more come.
            clock: seconds, never going back.
        """
        self._run_dir = run_dir
        self._start_steps = start_steps
        self._flush_s = flush_s
        self._clock = clock
        self._flush_at_s = -math.inf  # the first scalars show at once
        self._last_step: dict[str, int] = {}
        self._file: BinaryIO | None = None
        self._closed = False

    def write(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Add one step's scalars.

        Raises:
            OSError: the file cannot be written.
            ValueError: the writer is closed.
        """
        due = {tag: x for tag, x in scalars.items() if abs(x) <= FLOAT32_MAX and self._grows(tag, env_steps)}
        self._write(env_steps, due, _scalar_values)

    def write_histograms(self, env_steps: int, histograms: Mapping[str, Histogram]) -> None:
        """Add one step's histograms of whole numbers.

        Raises:
            OSError: the file cannot be written.
            ValueError: the writer is closed.
        """
        due = {tag: counts for tag, counts in histograms.items() if self._grows(tag, env_steps)}
        self._write(env_steps, due, _histogram_values)

    def _write(self, env_steps: int, due: Mapping[str, Any], values: Callable[[Mapping[str, Any]], list[Any]]) -> None:
        if self._closed:
            raise ValueError(f"TensorBoard writer of {self._run_dir} is closed")
        if not due:
            return
        if self._file is None:
            self._file = self._open()
        check_linked(self._file, Path(self._file.name))
        self._last_step.update(dict.fromkeys(due, env_steps))
        self._file.write(_record(_event(env_steps, values(due))))
        if self._clock() >= self._flush_at_s:
            self._file.flush()
            self._flush_at_s = self._clock() + self._flush_s

    def close(self) -> None:
        """Flush and close; idempotent."""
        self._closed = True
        if self._file is not None:
            self._file.close()

    def _grows(self, tag: str, env_steps: int) -> bool:
        return env_steps > self._last_step.get(tag, self._start_steps or -1)

    def _open(self) -> BinaryIO:
        # Imported at the first write: 20 ms that the run's start need not wait for.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        file = _new_file(self._run_dir)
        file.write(_record(Event(wall_time=time.time(), file_version="brain.Event:2")))
        if self._start_steps:
            start = SessionLog(status=SessionLog.START)
            file.write(_record(Event(wall_time=time.time(), step=self._start_steps + 1, session_log=start)))
        return file


def _new_file(run_dir: Path) -> BinaryIO:
    """A name that no other start has: whole seconds alone are not enough."""
    run_dir.mkdir(parents=True, exist_ok=True)
    stem = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
    for number in itertools.count():
        try:
            return open(run_dir / f"{stem}.{number}", "xb")
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def _event(env_steps: int, values: list[Any]) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(wall_time=time.time(), step=env_steps, summary=Summary(value=values))


def _scalar_values(scalars: Mapping[str, float]) -> list[Any]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return [Summary.Value(tag=tag, simple_value=x) for tag, x in scalars.items()]


def _histogram_values(histograms: Mapping[str, Histogram]) -> list[Any]:
    """One bucket a value, as long as there are few; wider ones of one width where there are many."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

    values = []
    for tag, counts in histograms.items():
        low, high = min(counts), max(counts)
        width = 1 + (high - low) // _BUCKETS
        buckets = [0.0] * (1 + (high - low) // width)
        for value, count in counts.items():
            buckets[(value - low) // width] += count
        proto = HistogramProto(
            min=low,
            max=high,
            num=sum(counts.values()),
            sum=sum(value * count for value, count in counts.items()),
            sum_squares=sum(value * value * count for value, count in counts.items()),
            bucket_limit=[low + (i + 1) * width - 0.5 for i in range(len(buckets))],
            bucket=buckets,
        )
        values.append(Summary.Value(tag=tag, histo=proto))
    return values


def _record(event: Any) -> bytes:
    data: bytes = event.SerializeToString()
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def _masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (0x82F63B78 if index & 1 else 0)
    return index


_CRC_TABLE = [_crc_entry(index) for index in range(256)]

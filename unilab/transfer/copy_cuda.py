"""Host slots to a CUDA device on a stream of their own, beside the updates.

The shared host slots themselves are page-locked in place (``cudaHostRegister``): ``pin_memory`` would copy them into
other pages. Each device slot has two events: ``ready`` after its copy, which the compute stream waits for and
which frees the host slot, and ``consumed`` after the compute that reads it, which the next copy waits for. Nothing
synchronises the whole device.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unilab.telemetry.trace import Tracer
from unilab.telemetry.trace_device import DeviceClock, DeviceSpans, NoDeviceSpans, TracedDeviceSpans


class CudaCopier:
    """Copier to a CUDA device.

    Args:
        host: [slots, rows, width] float32, C-contiguous, alive until ``close``.
        device: a CUDA device.
        trace: shows copies and updates at the device's own time; None: they are not shown.

    Attributes:
        notice: why the slots could not be page-locked, or None. Copies are then correct but not asynchronous.
    """

    def __init__(self, host: NDArray[np.float32], device: torch.device, trace: Tracer | None = None) -> None:
        self._address = host.ctypes.data
        self.notice = _page_lock(self._address, host.nbytes)
        if self.notice is not None:
            _forget_error(device)
        self._host = [torch.from_numpy(slot) for slot in host]
        self._device = [torch.empty(slot.shape, device=device) for slot in host]
        cuda: Any = torch.cuda  # its classes carry no types
        self._stream = cuda.Stream(device)
        self._ready = [cuda.Event(blocking=True) for _ in host]  # waited for by the host: sleep, not spin
        self._consumed = [cuda.Event() for _ in host]
        self._copies, self._updates = _device_spans(trace, self._stream)

    def wait_host_free(self, slot: int) -> None:
        """Sleep until the last copy out of the host slot has ended."""
        self._ready[slot].synchronize()

    def submit(self, slot: int, rows: int) -> None:
        """Queue the copy behind the compute that still reads the device slot."""
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(self._consumed[slot])
            self._copies.begin(self._stream)
            self._device[slot][:rows].copy_(self._host[slot][:rows], non_blocking=True)
            self._copies.end(self._stream)
            self._ready[slot].record(self._stream)

    def ready(self, slot: int, rows: int) -> torch.Tensor:
        """Make the current stream wait for the copy."""
        stream = torch.cuda.current_stream(self._device[slot].device)
        stream.wait_event(self._ready[slot])
        self._updates.begin(stream)
        return self._device[slot][:rows]

    def consumed(self, slot: int) -> None:
        """Mark the end of the reads on the current stream."""
        stream = torch.cuda.current_stream(self._device[slot].device)
        self._updates.end(stream)
        self._consumed[slot].record(stream)

    def close(self) -> None:
        """Wait for the last copy and unlock the pages, before anyone unmaps them."""
        if not self._host:
            return
        self._stream.synchronize()
        self._copies.close()
        self._updates.close()
        self._host, self._device = [], []
        if self.notice is None:
            _runtime().cudaHostUnregister(self._address)


def _device_spans(trace: Tracer | None, stream: Any) -> tuple[DeviceSpans, DeviceSpans]:
    """Of the copies' stream, and of the one that computes."""
    if trace is None:
        return NoDeviceSpans(), NoDeviceSpans()
    cuda: Any = torch.cuda
    clock = DeviceClock(lambda: cuda.Event(enable_timing=True), stream)
    return (
        TracedDeviceSpans(trace, "CUDA copies", "cuda_copy", clock),
        TracedDeviceSpans(trace, "CUDA updates", "cuda_update", clock),
    )


def _page_lock(address: int, nbytes: int) -> str | None:
    """Page-lock memory in place; returns why it could not be done, or None."""
    status = int(_runtime().cudaHostRegister(address, nbytes, 0))
    if status == 0:
        return None
    return (
        f"could not page-lock {nbytes / 2**20:.1f} MiB of staging slots (CUDA error {status}; see `ulimit -l`): "
        "copies to the device will not overlap with updates"
    )


def _forget_error(device: torch.device) -> None:
    """A failed call leaves its error behind, and the next kernel launch is blamed for it: let it be this one."""
    with contextlib.suppress(RuntimeError):
        torch.ones(1, device=device)


def _runtime() -> Any:
    """The CUDA runtime library."""
    cuda: Any = torch.cuda
    return cuda.cudart()

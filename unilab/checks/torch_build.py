"""Whether this build of torch can use the machine's GPU."""

from __future__ import annotations

from pathlib import Path

import torch

from unilab.checks.finding import Finding, ok, warn

_DEVICES = Path("/dev")


def torch_finding(device: str) -> Finding:
    """Compare torch's build with the device files of NVIDIA's driver.

    Args:
        device: the config's, "auto" for CUDA where there is one.
    """
    there = any(_DEVICES.glob("nvidia[0-9]*"))
    if torch.cuda.is_available():
        return ok("torch", f"{torch.__version__}, CUDA {torch.version.cuda}: {torch.cuda.get_device_name(0)}")
    if not there or device == "cpu":
        return ok("torch", f"{torch.__version__}, learning on the CPU")
    if torch.version.cuda is None:
        return warn(
            "torch",
            f"this machine has an NVIDIA GPU, but torch {torch.__version__} is a CPU-only build",
            "install a CUDA build by the selector on PyTorch's site, or say --device cpu",
        )
    return warn(
        "torch",
        f"this machine has an NVIDIA GPU, but torch {torch.__version__} (CUDA {torch.version.cuda}) cannot use it",
        "see `nvidia-smi`: an old driver, or CUDA_VISIBLE_DEVICES hides it; or say --device cpu",
    )

"""Where to compute: picking a device, and Lightning Fabric on it."""

import ctypes
import functools
import sys
from typing import Any

import torch
from lightning_fabric import Fabric


def pick_device(name: str | torch.device = "auto") -> torch.device:
    """The device of this name; "auto" is the first there is of an Nvidia GPU, an Apple GPU, the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f"There is no device {name!r}; choose auto, cpu, cuda, cuda:0, ..., or mps."
        ) from None
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present.get(device.type, False):
        raise ValueError(f"The device {str(name)!r} is not available on this machine.")
    return device


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep memory that was freed, for the next tensor; True if it will.

    Every training step allocates and frees the same tensors of several megabytes. By default glibc
    returns such blocks to the system at once, and the system hands them out again filled with zeros,
    page by page: about a sixth of the time of a step on a CPU. The process keeps its largest size
    instead. With another C library nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # names and numbers of <malloc.h>
    answers = (
        mallopt(mmap_threshold, 32 << 20),  # the largest value that glibc takes
        mallopt(trim_threshold, (1 << 31) - 1),
        mallopt(top_pad, 64 << 20),
    )
    return all(answer == 1 for answer in answers)


def make_fabric(
    device: str | torch.device = "auto",
    *,
    devices: int = 1,
    strategy: Any = "auto",
    precision: Any = "32-true",
) -> Fabric:
    """Lightning Fabric on that device, or on the first `devices` of its kind.

    On the CPU `devices` is the number of processes. `strategy` and `precision` are Fabric's own.
    """
    chosen = pick_device(device)
    if chosen.type == "cpu":
        keep_freed_memory()
    one = devices == 1 and chosen.index is not None
    return Fabric(
        accelerator=chosen.type,
        devices=[chosen.index] if one else devices,
        strategy=strategy,
        precision=precision,
    )

"""Named random streams.

Whatever the package draws comes from a `torch.Generator` that the caller passes in. A run with one
seed needs several of them (weights, shuffling, transformations, posterior noise, ...), and they must
not disturb each other: drawing one number more in one stream may not change another. So each stream
has a name, and its seed is a hash of the run's seed and that name.
"""

import hashlib

import torch


def derive(seed: int, name: str) -> int:
    """A 63-bit seed that depends on both the run's `seed` and the stream's `name`."""
    digest = hashlib.sha256(f"{int(seed)}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes signed 64-bit seeds


def generator(seed: int, name: str, device: str | torch.device = "cpu") -> torch.Generator:
    """A fresh generator for the stream `name` of the run with this `seed`, living on `device`.

    The same arguments always give the same stream; different names give independent streams.
    """
    return torch.Generator(device=device).manual_seed(derive(seed, name))

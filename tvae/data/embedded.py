"""The samples that travel inside the package: `samples/README.md` tells how they were drawn.

`scripts/embed_data.py` draws and packs them again, byte for byte.
"""

import lzma
from importlib import resources

import torch

from tvae.data import idx


def sample_bytes(file: str) -> bytes:
    """The bytes of a file of the `samples` folder, wherever the package is installed."""
    return (resources.files("tvae.data") / "samples" / file).read_bytes()


def checksums() -> dict[str, str]:
    """File name -> SHA-256 of every embedded file, as listed beside them."""
    lines = sample_bytes("SHA256SUMS").decode().splitlines()
    return {file: digest for digest, file in (line.split() for line in lines)}


def read(file: str) -> torch.Tensor:
    """The uint8 tensor of an embedded .xz file."""
    return idx.decode(lzma.decompress(sample_bytes(file)), file)

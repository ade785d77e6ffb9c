"""The samples that travel inside the package: how they are drawn, packed and read.

No draw needs a random number generator, so that no library version can change it: images are ranked
by the SHA-256 of a text such as "mnist/train/17" (name, split, and position in the full file, from
0), and the first are kept. `scripts/embed_data.py` writes the files; `samples/README.md` tells the
rest.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterable
from importlib import resources

import numpy as np
import torch

from tvae.data import idx

# Every parameter is written out, so that the packed bytes hang on the algorithm and not on what a
# preset means in some version of the library. Literals of grey images gain from pb = 0.
_FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "dict_size": 8 << 20,
        "lc": 4,
        "lp": 0,
        "pb": 0,
        "mode": lzma.MODE_NORMAL,
        "nice_len": 32,
        "mf": lzma.MF_BT4,
        "depth": 24,
    }
]


def first_by_hash(text: str, numbers: Iterable[int], count: int) -> list[int]:
    """The `count` of `numbers` whose text "text/number" has the smallest SHA-256."""

    def rank(number: int) -> bytes:
        return hashlib.sha256(f"{text}/{number}".encode()).digest()

    return sorted(numbers, key=rank)[:count]


def pack(array: np.ndarray) -> bytes:
    """A uint8 array as xz-compressed IDX bytes."""
    return lzma.compress(
        idx.encode(array), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=_FILTERS
    )


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

"""The samples of MNIST and Fashion-MNIST that travel inside the package, and how they are drawn.

The draw needs no random number generator, so that no library version can change it: within each
class the images are ranked by the SHA-256 of the text "name/split/index" (index: position in the
full file, from 0), and the first 600 (train) or 100 (test) of each class are kept, in file order.
`scripts/embed_data.py` writes the files; `samples/README.md` tells the rest.
"""

from __future__ import annotations

import hashlib
import lzma
from importlib import resources
from types import MappingProxyType

import numpy as np
import torch

from tvae.data import idx
from tvae.data.dataset import Dataset, describe
from tvae.data.digits import CLASSES

__all__ = [
    "NAMES",
    "PER_CLASS",
    "checksums",
    "choose",
    "pack",
    "sample",
    "sample_bytes",
    "sample_names",
]

NAMES = ("mnist", "fashion-mnist")
PER_CLASS = MappingProxyType({"train": 600, "test": 100})

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


def choose(name: str, split: str, labels: torch.Tensor) -> torch.Tensor:
    """Indices (ascending) of the images of the full set that the sample keeps."""

    def rank(index: int) -> bytes:
        return hashlib.sha256(f"{name}/{split}/{index}".encode()).digest()

    kept: list[int] = []
    for label in range(10):
        members = torch.nonzero(labels == label).flatten().tolist()
        if len(members) < PER_CLASS[split]:
            raise ValueError(
                f"Class {label} of {name} ({split}) has {len(members)} images, "
                f"fewer than the {PER_CLASS[split]} that the sample needs."
            )
        kept += sorted(members, key=rank)[: PER_CLASS[split]]
    return torch.tensor(sorted(kept))


def pack(array: np.ndarray) -> bytes:
    """A uint8 array as xz-compressed IDX bytes."""
    return lzma.compress(
        idx.encode(array), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=_FILTERS
    )


def sample_names(name: str, split: str) -> tuple[str, str]:
    """File names of the images and of the labels of an embedded sample."""
    return f"{name}-{split}-images.idx3.xz", f"{name}-{split}-labels.idx1.xz"


def sample_bytes(file: str) -> bytes:
    """The bytes of a file of the `samples` folder, wherever the package is installed."""
    return (resources.files("tvae.data") / "samples" / file).read_bytes()


def checksums() -> dict[str, str]:
    """File name -> SHA-256 of every embedded file, as listed beside them."""
    lines = sample_bytes("SHA256SUMS").decode().splitlines()
    return {file: digest for digest, file in (line.split() for line in lines)}


def sample(name: str, split: str) -> Dataset:
    """The embedded sample: 6,000 (train) or 1,000 (test) images, (N, 1, 28, 28) uint8."""
    image_file, label_file = sample_names(name, split)
    images = idx.decode(lzma.decompress(sample_bytes(image_file)), image_file)
    labels = idx.decode(lzma.decompress(sample_bytes(label_file)), label_file)
    return describe(
        name,
        "embedded",
        split,
        images[:, None],
        labels.to(torch.int64),
        classes=CLASSES[name],
        note=f"a stratified sample, {PER_CLASS[split]} of each class, not the full set",
    )

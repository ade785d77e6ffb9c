"""Re-create the embedded samples from the full files, byte for byte.

    TVAE_DATA=/path/to/torchvision/root python scripts/embed_data.py          # write
    TVAE_DATA=/path/to/torchvision/root python scripts/embed_data.py --check  # compare only

How the samples are drawn tells `tvae/data/samples/README.md`.
With `--check` nothing is written, and the exit code is 1 if any file differs.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tvae.data import digits, embedded, omniglot, portraits
from tvae.files import atomic_write

SAMPLES = Path(embedded.__file__).parent / "samples"
PORTRAITS = {"train": 320, "test": 80}

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


def choose(name: str, split: str, labels: torch.Tensor) -> torch.Tensor:
    """Indices (ascending) of the images of MNIST or Fashion-MNIST that its sample keeps."""
    kept: list[int] = []
    for label in range(10):
        members = torch.nonzero(labels == label).flatten().tolist()
        if len(members) < digits.PER_CLASS[split]:
            raise ValueError(
                f"Class {label} of {name} ({split}) has {len(members)} images, "
                f"fewer than the {digits.PER_CLASS[split]} that the sample needs."
            )
        kept += first_by_hash(f"{name}/{split}", members, digits.PER_CLASS[split])
    return torch.tensor(sorted(kept))


def choose_portraits(split: str, root: Path | None = None) -> torch.Tensor:
    """Official photographs in the public domain, the sample of a split: (n, 3, 64, 64) uint8."""
    archive, index = portraits.find(split, root=root)
    lines = [
        x
        for x in portraits.read_index(index)
        if x["licence"].startswith(portraits.FREE)
        and x["attribution"] == "GPO Member Guide"
        and portraits.split_of(x["source"], x["file_in_zip"]) == split
    ]
    kept = first_by_hash(f"portraits/{split}", range(len(lines)), PORTRAITS[split])
    return portraits.read_images(archive, [lines[k] for k in sorted(kept)], 96, portraits.SIDE)


def encode_idx(array: np.ndarray) -> bytes:
    """The IDX bytes of a uint8 array: magic number, big-endian sizes, values."""
    if array.dtype != np.uint8:
        raise ValueError(f"Only uint8 arrays are written as IDX here, not {array.dtype}.")
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + np.ascontiguousarray(array).tobytes()


def pack(array: np.ndarray) -> bytes:
    """A uint8 array as xz-compressed IDX bytes."""
    return lzma.compress(
        encode_idx(array), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=_FILTERS
    )


def pack_portraits(images: torch.Tensor) -> bytes:
    """Images (n, 3, 64, 64) as one JPEG sheet, twenty in a row, without subsampled colours.

    A block of a JPEG has 8×8 pixels, so that no photograph touches another. Lossless files would be
    four times as large.
    """
    side, columns = portraits.SIDE, portraits.COLUMNS
    rows = images.reshape(-1, columns, 3, side, side).permute(0, 3, 1, 4, 2)
    sheet = rows.reshape(-1, columns * side, 3).contiguous().numpy()
    with io.BytesIO() as buffer:
        Image.fromarray(sheet).save(buffer, "jpeg", quality=90, subsampling=0, optimize=True)
        return buffer.getvalue()


def recreate(root: Path | None = None) -> dict[str, bytes]:
    """File name -> bytes of every sample, and of the list of their checksums."""
    result: dict[str, bytes] = {}
    for name in ("mnist", "fashion-mnist"):
        for split in ("train", "test"):
            full = digits.full(name, split, root=root)
            kept = choose(name, split, full.labels)
            image_file, label_file = digits.sample_names(name, split)
            result[image_file] = pack(full.images[kept, 0].numpy())
            result[label_file] = pack(full.labels[kept].numpy().astype("uint8"))
    for split, alphabets in omniglot.SAMPLE.items():
        drawings = omniglot.load(split, root=root, alphabets=list(alphabets))
        result[f"omniglot-{split}-images.idx3.xz"] = pack(drawings.images[:, 0].numpy())
    for split in PORTRAITS:
        result[f"portraits-{split}-images.jpg"] = pack_portraits(choose_portraits(split, root))
    sums = [f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in result.items()]
    return {**result, "SHA256SUMS": "".join(sums).encode()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--root", type=Path, help="torchvision data root (default: TVAE_DATA)")
    arguments = parser.parse_args()
    differing = 0
    for file, data in recreate(arguments.root).items():
        path = SAMPLES / file
        same = path.is_file() and path.read_bytes() == data
        differing += not same
        if not arguments.check and not same:
            atomic_write(path, data)
        print(f"{'same' if same else 'differs' if arguments.check else 'written':8}{path.name}")
    return int(arguments.check and differing > 0)


if __name__ == "__main__":
    sys.exit(main())
